"""What applications send all day: asks, exposures and rewards."""

from __future__ import annotations

from typing import Any

from ..answers import Decisions, Told
from ..bodies import Aggregate, Ask, Expose, Tell
from ..dispatch import Call, Route
from ..problems import Kind, Problem
from ..roles import Permission

DECIDE = Permission.decide
RETRY = ("Idempotency-Key",)
TOTALS = ("total", "total_of_squares", "positive", "total_of_logs", "total_of_squared_logs")


async def ask(call: Call) -> Decisions:
    """Decisions, stored before they are returned."""
    body: Ask = call.body
    request = call.experiment.request(body.n, call.request_id, units=body.units, contexts=body.contexts, available=body.available)
    return Decisions.of(await call.opened.ask(request))


async def tell(call: Call) -> Told:
    """Record rewards; the answer says what became of each."""
    body: Tell = call.body
    rows: list[dict[str, Any]] = [{"reward": row.reward, "decision_id": row.decision_id, "unit": row.unit} for row in body.rewards]
    return Told.of(await call.service.run(call.experiment.tell, rows, call.request_id, metric=body.metric))


async def tell_aggregate(call: Call) -> Told:
    """Record totals of the rewards of an arm. They have no decision ids that make a retry harmless: the Idempotency-Key does."""
    body: Aggregate = call.body
    if call.request_id is None:
        raise Problem(Kind.refused, "Totals have no decision ids that make a retry harmless; send the header Idempotency-Key.")
    totals = {name: getattr(body, name) for name in TOTALS}
    told = call.service.run(call.experiment.tell_aggregate, body.arm, body.count, request_id=call.request_id, **totals)
    return Told.of(await told)


async def expose(call: Call) -> Told:
    """Record that decisions were carried out, in an experiment with explicit exposure; the answer says what became of each."""
    body: Expose = call.body
    return Told.of(await call.service.run(call.experiment.tell_exposures, body.decision_ids, units=body.units))


AT = "/v1/experiments/{experiment}"
ROUTES = (
    Route("POST", f"{AT}/decisions", DECIDE, ask, "Ask for decisions", Decisions, Ask, headers=RETRY),
    Route("POST", f"{AT}/rewards", DECIDE, tell, "Tell rewards", Told, Tell, headers=RETRY),
    Route("POST", f"{AT}/exposures", DECIDE, expose, "Tell exposures", Told, Expose),
    Route("POST", f"{AT}/rewards/aggregate", DECIDE, tell_aggregate, "Tell totals of rewards", Told, Aggregate, headers=RETRY),
)
