"""`RemoteExperiment`: the methods of `blts.live.Experiment`, over HTTP."""

from __future__ import annotations

import csv
import os
import pathlib
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ..answers import Answer, Decision, Page, Refreshed, Told
from ..errors import ConfigError, shown
from ..progress import working
from ..reading import Report
from .connection import Connection

POLLS = 0.05, 1.0  # seconds between looks at a job: the first, and the longest


class RemoteExperiment:
    """An experiment of a service. Its methods take and return what those of `blts.live.Experiment` do.

    Calls are repeated while the service cannot be reached and there is time, if that is harmless: asks and tells carry a request id
    of their own where none is given, so that a repetition is answered with the first answer. Changes such as `add_arm` are sent
    again only if they were not received. Over HTTP every change needs a reason, and a request has at most 10,000 decisions.

    >>> from blts.client import Client
    >>> Client("http://127.0.0.1:8000", "blts_1_secret").experiment("mail")  # no request yet
    RemoteExperiment('http://127.0.0.1:8000', 'mail')
    """

    def __init__(self, connection: Connection, name: str):
        if not isinstance(name, str) or not name:
            raise ConfigError(f"name must be the name of an experiment; got {shown(name)}.")
        self._connection, self.name = connection, name
        self._path = f"/v1/experiments/{quote(name, safe='')}"

    def __repr__(self) -> str:
        return f"RemoteExperiment({self._connection.url!r}, {self.name!r})"

    def ask(
        self,
        n: int | None = None,
        request_id: str | None = None,
        *,
        units: Sequence[str] | None = None,
        contexts: Sequence[Mapping[str, Any]] | None = None,
        available: Sequence[Any] | None = None,
    ) -> Answer:
        """Decisions, stored before they are returned; see `Experiment.ask`."""
        if units is None and request_id is None:
            request_id = uuid.uuid4().hex  # units have the same decision again anyway
        body = _given(n=n, units=_several(units), contexts=_several(contexts), available=_several(available))
        found = self._post("decisions", body, request_id=request_id)
        return Answer(**found)._replace(decisions=tuple(Decision(**one) for one in found["decisions"]))

    def tell(
        self,
        rewards: Iterable[Any] = (),
        request_id: str | None = None,
        *,
        unit: str | None = None,
        reward: Any = None,
        metric: str | None = None,
    ) -> Told:
        """Record rewards, or values of a metric; see `Experiment.tell`.

        A row that is none raises `ConfigError`, and nothing is told then.
        """
        rows = list(rewards) if unit is None else [*rewards, {"unit": unit, "reward": reward}]
        body = _given(rewards=[_row(row) for row in rows], metric=metric)
        return _told(self._post("rewards", body, request_id=request_id or uuid.uuid4().hex))

    def tell_aggregate(
        self,
        arm: str,
        count: int,
        *,
        request_id: str,
        total: float | None = None,
        total_of_squares: float | None = None,
        positive: int | None = None,
        total_of_logs: float | None = None,
        total_of_squared_logs: float | None = None,
    ) -> Told:
        """Totals of `count` rewards of an arm, which settle its oldest waiting decisions."""
        body = _given(
            arm=arm,
            count=count,
            total=total,
            total_of_squares=total_of_squares,
            positive=positive,
            total_of_logs=total_of_logs,
            total_of_squared_logs=total_of_squared_logs,
        )
        return _told(self._post("rewards/aggregate", body, request_id=request_id))

    def expose(self, decision_ids: Sequence[str] = (), *, units: Sequence[str] = ()) -> int:
        """Record that decisions were carried out; how many were not recorded before (`ConfigError` where one is unknown)."""
        told = self.tell_exposures(decision_ids, units=units)
        if told.unknown:
            raise ConfigError(f"There is no decision for {shown(told.ids['unknown'][0])} in the experiment {self.name!r}.")
        return told.accepted

    def tell_exposures(self, decision_ids: Sequence[str] = (), *, units: Sequence[str] = ()) -> Told:
        """The same, and nothing raises for an unknown decision: the answer says what became of each."""
        return _told(self._post("exposures", {"decision_ids": list(decision_ids), "units": list(units)}))

    def correct(self, decision_id: str, reward: float, reason: str = "", *, metric: str | None = None) -> bool:
        """Replace a reward, or a value of a metric, by a new entry; False where it stood so already."""
        body = _given(decision_id=decision_id, reward=_number(reward), reason=_reason(reason), metric=metric)
        return self._post("corrections", body)["changed"] > 0

    def cancel(self, decision_ids: Sequence[str], reason: str = "") -> int:
        """Decisions whose unit was never exposed: they count for nothing. How many were not cancelled before."""
        return self._post("cancellations", {"decision_ids": list(decision_ids), "reason": _reason(reason)})["changed"]

    def refresh(self, *, force: bool = False, progress: bool | None = None) -> Refreshed:
        """Have the service's worker close the batch and write a new policy version, and wait for that.

        Args:
            force: whether the batch is closed with the rewards that are in.
            progress: whether a sign moves while it waits; None: in terminals and notebooks.

        Returns:
            The new version with its diagnostics, or why there is none.
        """
        with working(f"refreshing {self.name}", progress):
            return Refreshed(**self._job("refresh", {"force": bool(force)}))

    def verify(self) -> list[str]:
        """Have the service's worker replay the ledger, and wait for that; the differences, of which there should be none."""
        return self._job("verify", {})

    def add_arm(self, label: str, metadata: dict[str, Any] | None = None, *, reason: str = "", **options: float) -> int:
        """A new arm from the next decision on; `options` are its own numbers of the model. The policy version it makes."""
        body = {"label": label, "metadata": metadata or {}, "options": options, "reason": _reason(reason)}
        return self._post("arms", body, repeatable=False)["version"]

    def retire_arm(self, label: str, reason: str = "") -> int:
        """No more decisions for an arm; what it earned stays. The policy version it makes."""
        return self._post(f"arms/{quote(label, safe='')}/retire", {"reason": _reason(reason)}, repeatable=False)["version"]

    def stop(self, promote: str | None = None, reason: str = "") -> int:
        """End the experiment, for good; `promote` is the arm of every new decision. The policy version in use."""
        return self._post("stop", _given(promote=promote, reason=_reason(reason)), repeatable=False)["version"]

    def pause(self, reason: str = "") -> None:
        """No decisions until `resume`; rewards are still accepted."""
        self._post("pause", {"reason": _reason(reason)})

    def resume(self, reason: str = "") -> None:
        """Decisions again."""
        self._post("resume", {"reason": _reason(reason)})

    def status(self) -> dict[str, Any]:
        """Where the experiment stands."""
        return self._get("status")

    def report(self, version: int | None = None, *, fresh: bool = False) -> Report:
        """What is known: estimates, checks and a recommendation; see `Experiment.report`."""
        return Report(self._get("report", version=version, fresh=fresh or None))

    def policy(self, version: int | None = None) -> dict[str, Any]:
        """A policy version as it was written; by default the one in use."""
        return self._get(f"policies/{self.status()['policy'] if version is None else version}")

    def policies(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of policy versions, by their numbers."""
        return Page(**self._get("policies", after=after, before=before, limit=limit))

    def audit(self) -> list[dict[str, Any]]:
        """Everything that was done, in order."""
        return list(self._connection.rows(f"{self._path}/audit"))

    def audit_page(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of the audit log, by the lines' positions."""
        return Page(**self._get("audit", after=after, before=before, limit=limit))

    def decisions(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of decisions, by their numbers; see `Experiment.decisions`."""
        return Page(**self._get("decisions", after=after, before=before, limit=limit))

    def decision(self, decision_id: str | None = None, *, unit: str | None = None) -> dict[str, Any]:
        """One decision, by its id or by whom it is for, with every entry about it."""
        if (decision_id is None) == (unit is None):
            raise ConfigError("Give the id of a decision or a unit, one of them.")
        one = f"decisions/{quote(str(decision_id), safe='')}"
        found = self._get(one) if unit is None else self._post("decisions/find", {"unit": unit})
        without = {"context", "available"} if found["context"] is None else set()
        return {name: value for name, value in found.items() if name not in without}

    def export(self, path: str | os.PathLike[str]) -> int:
        """Every decision with its propensities and reward, to a .csv file; how many there are."""
        file = pathlib.Path(path)
        if file.suffix != ".csv":
            raise ConfigError(f"A service exports CSV; give a file that ends with .csv; got {shown(str(path))}.")
        text = self._connection.text(f"{self._path}/export")
        file.write_bytes(text)
        return sum(1 for _ in csv.reader(text.decode().splitlines(keepends=True))) - 1

    def _get(self, what: str, **query: Any) -> Any:
        return self._connection.get(f"{self._path}/{what}", **query)

    def _post(self, what: str, body: Mapping[str, Any], *, request_id: str | None = None, repeatable: bool = True) -> Any:
        return self._connection.post(f"{self._path}/{what}", body, request_id=request_id, repeatable=repeatable)

    def _job(self, kind: str, detail: dict[str, Any]) -> Any:
        """What became of a job (`ConfigError` where it failed or has not ended in time; it goes on then)."""
        job, (pause, longest) = self._post(kind, detail, repeatable=not detail.get("force")), POLLS
        deadline = time.monotonic() + self._connection.timeout
        while job["state"] not in ("done", "failed"):
            if time.monotonic() > deadline:
                raise ConfigError(f"The {kind} is still {job['state']}; is a worker running? Its job is {job['id']}.")
            time.sleep(pause)
            pause, job = min(1.5 * pause, longest), self._connection.get(f"/v1/jobs/{job['id']}")
        if job["state"] == "failed":
            raise ConfigError(job["result"])
        return job["result"]


def _told(found: dict[str, Any]) -> Told:
    return Told(**found)._replace(warnings=tuple(found["warnings"]))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _several(values: Sequence[Any] | None) -> Any:
    """A list of what was given, which the service checks."""
    return list(values) if isinstance(values, Sequence) and not isinstance(values, str) else values


def _reason(reason: str) -> str:
    if not reason:
        raise ConfigError('Over HTTP a change needs a reason; give reason="…".')
    return reason


def _row(row: Any) -> dict[str, Any]:
    """A row of `tell` as it is sent (`ConfigError` where it is none)."""
    if isinstance(row, Mapping):
        found = {("reward" if name == "value" else name): value for name, value in row.items()}
    else:
        try:
            found = dict(zip(("decision_id", "reward"), row, strict=True))
        except (TypeError, ValueError):
            raise ConfigError(f"A row is a decision id and a reward; got {shown(row)}.") from None
    return found | {"reward": _number(found.get("reward"))}


def _number(reward: Any) -> Any:
    """A reward as JSON has it (`ConfigError` where it is no number)."""
    if isinstance(reward, str | bytes) or reward is None:
        raise ConfigError(f"A reward must be a number; got {shown(reward)}.")
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"A reward must be a number; got {shown(reward)}.") from None
