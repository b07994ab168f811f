"""Propensity vectors, stored once each and named by their digests."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from . import ledger, schema
from .database import insert, look_up

if TYPE_CHECKING:
    from .session import Policy, Session


class Vectors:
    """The propensity vectors of some decisions, each once, by their digests."""

    def __init__(self, current: Policy, laws: np.ndarray):
        same = bool((laws == laws[:1]).all())
        distinct, which = (laws[:1], np.zeros(len(laws), int)) if same else np.unique(laws, axis=0, return_inverse=True)
        self.texts = [json.dumps(_of_all_arms(law, current)) for law in distinct]
        self.names = [digest(text) for text in self.texts]
        self.of_decisions = [self.names[i] for i in which.reshape(-1)]


def digest(vector: str) -> str:
    """What a stored vector is named by."""
    return hashlib.sha256(vector.encode()).hexdigest()[:24]


def _of_all_arms(law: np.ndarray, current: Policy) -> list[float]:
    """Probabilities of all arms there have been, from those of the active ones."""
    out = [0.0] * len(current.arms)
    for i, p in zip(current.active, law, strict=True):
        out[i] = float(p)
    return out


def insert_vectors(session: Session, c: sa.Connection, vectors: Vectors) -> None:
    """Store those that are not."""
    new = {name: text for name, text in zip(vectors.names, vectors.texts, strict=True) if name not in session.stored_vectors}
    known = stored_vectors(session, c, list(new))
    new = {name: text for name, text in new.items() if name not in known}
    insert(c, schema.vectors, {"experiment": session.id, "vector": list(new), "probabilities": list(new.values())}, len(new))


def stored_vectors(session: Session, c: sa.Connection, names: list[str]) -> dict[str, str]:
    """Those of some vectors that are stored, by name."""
    table = schema.vectors.c
    found = dict(look_up(c, (table.vector, table.probabilities), session.id, table.vector, names))
    ledger.check_count("propensity vectors", sum(digest(text) == name for name, text in found.items()), len(found))
    return found


def by_label(labels: list[str], text: str) -> dict[str, float]:
    """A stored vector by label. It has no entry for arms that came after it."""
    return dict(zip(labels, json.loads(text), strict=False))
