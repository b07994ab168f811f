"""Decision ids for browsers: `<id>.<signature>`.

Ids of decisions are counted, so whoever has one can guess the next. Where anybody can read the key, an id is taken only with the
signature that the service gave it out with.
"""

from __future__ import annotations

from ..live.telling import code_of
from .keys import Key, Keys
from .problems import Kind, Problem
from .roles import Role

PURPOSE = "decision"


def given_out(keys: Keys, key: Key, decision_id: str) -> str:
    """A decision's id as a caller gets it.

    Args:
        keys: those of the service, which sign.
        key: of the caller.
        decision_id: of the decision.

    Returns:
        The id, for a key of the role client with its signature.
    """
    return f"{decision_id}.{keys.sign(PURPOSE, decision_id)}" if key.role == Role.client else decision_id


def taken(keys: Keys, key: Key, text: str) -> tuple[str, str]:
    """The decision's id that a caller sends.

    Args:
        keys: those of the service.
        key: of the caller; one of the role client must send a signature, others may.
        text: what was sent.

    Returns:
        The id of the decision, and the code that it begins with.

    Raises:
        Problem: it is no id, or not one that this service signed.
    """
    decision_id, dot, signature = text.partition(".")
    if (dot or key.role == Role.client) and not keys.is_signed(PURPOSE, decision_id, signature):
        raise Problem(Kind.refused, "This service did not sign that decisionId; send the one in the flag's metadata as it is.")
    code = code_of(decision_id)
    if code is None:
        raise no_decision()
    return decision_id, code


def no_decision() -> Problem:
    """The problem of a decision that does not exist, or that a key must not know of; both read the same."""
    return Problem(Kind.not_found, "There is no such decision for this key.")
