"""What can be stored and learned from: texts, labels, metadata, and rewards that a model can give."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._random import as_key
from .._typing import Array, Row
from ..declared import provides
from ..errors import BltsError, ConfigError, shown, type_and_message
from ..models import Model, first_arm
from ..models.support import SUPPORTS

MOST_ARMS = 1000


def check_text(what: str, text: object, longest: int = 200) -> None:
    """Refuse what a database cannot hold: empty or very long text, NUL, and lone surrogates.

    Args:
        what: what the text is, for the message.
        text: what was given.
        longest: the most characters it may have.

    Raises:
        ConfigError: it cannot be stored.
    """
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{what} must be text that is not empty; got {shown(text)}.")
    if len(text) > longest:
        raise ConfigError(f"{what} must have at most {longest} characters; this has {len(text)}.")
    if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ConfigError(f"{what} must not contain NUL or lone surrogates; got {text!r}.")


def check_reason(reason: object) -> None:
    """Refuse a reason for the audit log that is no text (`ConfigError`); it may be empty."""
    if not isinstance(reason, str):
        raise ConfigError(f"reason must be text; got {shown(reason)}.")
    if reason:
        check_text("reason", reason, 10_000)


def look(text: str) -> str:
    """What a text looks like: the same for one "é" of two characters and another of one, and without space around it."""
    return unicodedata.normalize("NFC", text).strip()


def check_alike(what: str, texts: Sequence[str]) -> None:
    """Refuse texts that differ and look the same (`ConfigError`); `what` says what they are."""
    first: dict[str, str] = {}
    for text in texts:
        if first.setdefault(look(text), text) != text:
            raise ConfigError(f"{what} {first[look(text)]!a} and {text!a} look the same; take texts that differ.")


def check_labels(labels: Sequence[object]) -> None:
    """Refuse labels of arms that are not text, are given twice or look the same, or are too many (`ConfigError`)."""
    if not 2 <= len(labels) <= MOST_ARMS:
        raise ConfigError(f"An experiment compares between 2 and {MOST_ARMS} arms; got {len(labels)}.")
    for label in labels:
        check_text("An arm's label", label)
    twice = {str(label) for label in labels if labels.count(label) > 1}
    if twice:
        raise ConfigError(f"Arms need labels of their own; {sorted(twice)[0]!r} is given twice.")
    check_alike("The arms", [str(label) for label in labels])


def metadata_as_json(metadata: object) -> dict[str, Any]:
    """What is known of an arm, as JSON will give it back; what JSON cannot hold is refused (`ConfigError`)."""
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"An arm's metadata must be a table of names and values; got {shown(metadata)}.")
    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise ConfigError(f"An arm's metadata must be what JSON can hold; got {shown(metadata)}.") from None


LARGEST = 1e30  # single precision ends at 3e38, and a square must not pass it


def check_support(model: Model) -> None:
    """Refuse a model whose support nothing is known of (`ConfigError`)."""
    support = model.support
    if support not in SUPPORTS:
        raise ConfigError(f"A model's support must be one of {', '.join(SUPPORTS)}; {type(model).__name__} has {support!r}.")


def check_densities(model: Model) -> None:
    """Refuse a model of all arms whose densities or rewards cannot be evaluated, or are no numbers (`ConfigError`)."""
    densities: dict[str, Callable[[Model, Array, Array], Any]] = {
        "log_prior": lambda model, theta, _: first_arm(model).log_prior(theta),
        "log_likelihood": lambda model, theta, reward: first_arm(model).log_likelihood(theta, Row((), jnp.asarray(0), reward, ())),
        "sample": lambda model, theta, _: first_arm(model).sample(as_key(0), theta, (), jnp.asarray(0)),
    }
    for name, density in densities.items():
        if not provides(model, name):
            continue
        try:
            numbers = (jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for shape in ((model.dim,), ()))
            found = jax.eval_shape(density, model, *numbers)
        except BltsError:
            raise
        except Exception as error:  # whatever a user's model does
            raise ConfigError(f"{name} of {type(model).__name__} cannot be evaluated ({type_and_message(error)}).") from error
        if getattr(found, "shape", None) != ():
            raise ConfigError(f"{name} of {type(model).__name__} must return one number; it returns {shown(found)}.")


def outside(model: Model, reward: float) -> str | None:
    """Why a reward cannot be learned from, or None where it can."""
    if not math.isfinite(reward):
        return "a reward must be finite"
    if abs(reward) > LARGEST:
        return f"a reward must be between {-LARGEST:g} and {LARGEST:g}"
    holds, words = SUPPORTS[model.support]
    return None if holds(reward) else f"rewards of this model are {words}"
