"""What applications send all day: asks, and rewards."""

from __future__ import annotations

from typing import Any

from ..answers import Decisions, Told
from ..bodies import Ask, Tell
from ..dispatch import Call, Route
from ..roles import Permission

DECIDE = Permission.decide
RETRY = ("Idempotency-Key",)


async def ask(call: Call) -> Decisions:
    """Decisions, stored before they are returned."""
    body: Ask = call.body
    request = call.experiment.request(body.n, call.request_id, units=body.units, contexts=body.contexts, available=body.available)
    return Decisions.of(await call.opened.ask(request))


async def tell(call: Call) -> Told:
    """Record rewards; the answer says what became of each."""
    body: Tell = call.body
    rows: list[dict[str, Any]] = [
        {"reward": row.reward} | ({"unit": row.unit} if row.unit is not None else {"decision_id": row.decision_id})
        for row in body.rewards
    ]
    return Told.of(await call.service.run(call.experiment.tell, rows, call.request_id, metric=body.metric))


ROUTES = (
    Route("POST", "/v1/experiments/{experiment}/decisions", DECIDE, ask, "Ask for decisions", Decisions, Ask, headers=RETRY),
    Route("POST", "/v1/experiments/{experiment}/rewards", DECIDE, tell, "Tell rewards", Told, Tell, headers=RETRY),
)
