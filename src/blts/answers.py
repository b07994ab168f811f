"""What a live experiment answers, in this process or through a service."""

from __future__ import annotations

from typing import Any, NamedTuple


class Decision(NamedTuple):
    """One decision: which arm, and with which probability each arm would have been it.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> decision = mail.ask(units=["ann"]).decisions[0]
    >>> decision.arm in ("A", "B", "C"), {arm: round(p, 3) for arm, p in decision.propensities.items()}
    (True, {'A': 0.333, 'B': 0.333, 'C': 0.333})
    >>> mail.ask(units=["ann"]).decisions[0].id == decision.id  # ann keeps her decision
    True
    """

    id: str
    arm: str
    batch: int
    policy: int
    """The version of the policy that made it."""
    propensities: dict[str, float]
    """With which probability each arm would have been played."""
    unit: str | None = None
    """Whom it is for, where it was asked for by unit."""
    available: bool = True
    """Whether a new decision could be this arm. A unit keeps its decision; where its arm was retired since, or is not among the
    arms that are available now, this is False and the caller decides what to show."""


class Answer(NamedTuple):
    """What `Experiment.ask` returns.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> answer = mail.ask(20)
    >>> len(answer.decisions), answer.feedback_due, answer.paused, answer.why
    (20, True, False, None)
    """

    decisions: tuple[Decision, ...]
    feedback_due: bool
    """The batch is closed and its rewards are awaited: `refresh` when they are in. A `strict` experiment makes no more decisions
    until then; others go on with the policy in use."""
    awaited: int
    """Decisions of this batch without a reward; `status` leaves out those whose window is over."""
    paused: bool = False
    """Whether the experiment waits for `resume`."""
    why: str | None = None
    """Why there are fewer decisions than were asked for."""
    stopped: bool = False
    """Whether it was stopped, for good: new decisions are the promoted arm, or there are none."""


class Told(NamedTuple):
    """How many rows had each outcome; `ids` lists those that were not accepted, with a reason where they are invalid.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> decision = mail.ask(1).decisions[0]
    >>> mail.tell([(decision.id, 1)]).accepted, mail.tell([(decision.id, 1)]).duplicate, mail.tell([("nobody", 1)]).unknown
    (1, 1, 1)
    """

    accepted: int
    duplicate: int
    conflict: int
    unknown: int
    invalid: int
    ids: dict[str, list[Any]]
    awaited: int
    feedback_due: bool
    warnings: tuple[str, ...] = ()
    """What a person should know before trusting the experiment: the model does not fit the rewards, for instance."""


class Refreshed(NamedTuple):
    """What `Experiment.refresh` returns.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> found = mail.refresh()
    >>> found.refreshed, found.version, found.why
    (False, 1, 'batch 1 is still open after 0 decisions')
    """

    refreshed: bool
    version: int
    """Of the policy that was written, or else of the one in use."""
    in_use: bool
    batch: int
    """The batch that runs now."""
    why: str | None
    """Why nothing was refreshed, or why the new version is kept out of use."""
    awaited: int
    diagnostics: dict[str, Any]


class Page(NamedTuple):
    """Some rows, and where the next page begins.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> answer = mail.ask(20)
    >>> page = mail.decisions(limit=15)
    >>> len(page.rows), len(mail.decisions(before=page.next, limit=15).rows)
    (15, 5)
    """

    rows: list[dict[str, Any]]
    next: int | None
    """What to give as `after` (or as `before`, where this page has the newest first) for the next page; None on the last."""
