"""Making an experiment: the form, its checks while somebody types, its rehearsal, and its start."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from ...errors import BltsError, ConfigError
from ...live import Experiment, Rehearsal, rehearse
from . import drafts
from .views.create import create
from .visits import Visit

MOST_UNITS = 20_000  # of a rehearsal in the browser; the command line takes more
REPLICATIONS = 60


async def form(visit: Visit) -> Response:
    """An empty form."""
    return visit.render(create(drafts.read({})), asked={})


async def checked(visit: Visit) -> Response:
    """What is wrong with a form that is being filled in, and what it would make, for the script of the page."""
    draft = await visit.service.run(_draft, visit, visit.form)
    page = visit.render(create(draft)).body
    text = bytes(page).decode()
    begin = text.index('<section class="card" id="summary"')
    return JSONResponse({"errors": draft.errors, "summary": text[begin : text.index("</section>", begin) + 10]})


async def made(visit: Visit) -> Response:
    """Rehearse a form, or create what it says."""
    draft = await visit.service.run(_draft, visit, visit.form)
    if draft.spec is None:
        return visit.render(create(draft), 422)
    if visit.form.get("do") == "create":
        try:
            await visit.service.compute(_create, visit, draft)
        except BltsError as error:
            return visit.render(create(draft, None, str(error)), 422)
        visit.service.warm_soon(await visit.service.experiment(draft.given["name"]))
        return visit.go("experiments", draft.given["name"], "connect", done="create")
    try:
        found = await visit.service.compute(_rehearse, draft)
    except BltsError as error:
        return visit.render(create(draft, None, str(error)), 422)
    return visit.render(create(draft, found))


def _draft(visit: Visit, form: Mapping[str, str]) -> drafts.Draft:
    """A form as a draft; a name that is taken is wrong too."""
    draft = drafts.read(form)
    name = draft.given["name"]
    if "name" not in draft.errors:
        if name in visit.service.database.names():
            draft.errors["name"] = "There is an experiment with this name; take another one."
        elif not visit.who.key.sees(name):
            draft.errors["name"] = "Your key is not for an experiment with this name."
    return draft._replace(spec=None) if draft.errors else draft


def _create(visit: Visit, draft: drafts.Draft) -> None:
    Experiment.create(
        visit.service.database, draft.given["name"], spec=draft.spec, clock=visit.service.clock, actor=visit.who.key.actor
    )


def _rehearse(draft: drafts.Draft) -> Rehearsal:
    """Simulate what a draft says; arms of which nothing was assumed are refused in a sentence."""
    assumed = draft.assumed
    assert draft.spec is not None
    if assumed["units"] is None or assumed["units"] > MOST_UNITS:
        raise ConfigError(f"Rehearse at most {MOST_UNITS:,} units here; blts experiment rehearse takes more.")
    return rehearse(
        draft.spec,
        assumed["truth"],
        units=assumed["units"],
        per_day=assumed["per_day"],
        delay=_delay(assumed["delay"]),
        replications=REPLICATIONS,
    )


def _delay(text: str | None) -> str | None:
    """When rewards come; files of the server are not read for anybody."""
    if text is not None and text.strip().split(" ")[0] not in ("exponential", "fixed"):
        raise ConfigError(f'Rewards come after "exponential 6h" or "fixed 1d"; got {text[:40]!r}.')
    return text
