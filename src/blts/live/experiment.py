"""`Experiment`: ask for decisions, tell rewards, refresh. Every method that changes something is one transaction.

What an experiment knows is a fold over its ledger: decisions, rewards, policy versions. The row of the experiment and
its clock are that fold, kept so that nobody has to read the ledger for the next decision. The methods say what can be
done; how is in the modules that they call, as functions of a `Session`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..agents import Agent, Belief
from ..batching import Batching
from ..errors import BltsError, ConfigError, shown
from ..models import Model
from ..progress import working
from ..reading import Report
from ..samplers import Chain
from . import arms, asking, creating, deciding, exposing, refreshing, reports, status, telling
from .answers import Answer, Refreshed, Told
from .damage import notices
from .database import Database
from .marks import Marked
from .metrics import measuring, objective, stopping
from .pages import Pages
from .parts import ArmsGiven, BatchingGiven, ModelGiven, SamplerGiven
from .request import Request, request_of
from .session import Session
from .spec import Spec


class Experiment(Pages, Marked):
    """A live experiment in a database.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions", sampler="exact", batching="fixed")
    >>> answer = mail.ask(20)
    >>> len(answer.decisions), answer.feedback_due, answer.awaited  # the batch of ten is closed, and decisions go on
    (20, True, 10)
    >>> mail.tell([(d.id, d.arm == "B") for d in answer.decisions]).accepted
    20
    >>> mail.refresh().version
    2
    """

    def __init__(self, context: Session):
        self.session = context
        self.database, self.name, self.spec = context.database, context.name, context.spec
        self.id, self.code = context.id, context.code

    def acting(self, actor: str) -> Experiment:
        """The same experiment for somebody else: what is done with it is theirs in the audit log. It costs next to nothing.

        Args:
            actor: their name.

        Returns:
            An experiment that shares connections and everything in memory with this one, so that closing either closes both.
        """
        return Experiment(self.session.acting(actor))

    def __repr__(self) -> str:
        return f"Experiment({self.database.url.render_as_string()!r}, {self.name!r})"

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back. What was answered is stored already."""
        self.database.close()

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str] | Database | None,
        name: str,
        arms: ArmsGiven | None = None,
        model: ModelGiven | None = None,
        sampler: SamplerGiven | None = None,
        batching: BatchingGiven | None = None,
        *,
        spec: Spec | None = None,
        clock: Callable[[], float] = time.time,
        actor: str | None = None,
        **settings: Any,
    ) -> Experiment:
        """A new experiment. The same call again is the same experiment; another one under its name is refused.

        Args:
            url: a database URL or a path of a SQLite file; None takes the variable BLTS_DB, or blts.db. Several experiments of one
                process can share a `Database`, and with it their connections.
            arms: labels, or a mapping from labels to what is known of them.
            model: "conversions", "counts", "numbers", "revenue" or a registered model by name, a mapping with its name and options,
                or a model object.
            sampler: a registered agent (sgld, exact, ula and mala are short for Thompson sampling with them), or a belief. By
                default exact draws where the model has them, and a pool of adjusted chains elsewhere.
            batching: a registered scheme, or "external".
            settings: the other fields of `Spec`, such as prior, seed, floor, control, burn_in, window, default_reward.
        """
        if spec is None:
            if arms is None or model is None:
                raise ConfigError("An experiment needs arms and a model, or a specification that has them.")
            parts = {"sampler": sampler, "batching": batching}
            spec = Spec.of(arms, model, **{name: part for name, part in parts.items() if part is not None}, **settings)
        elif any(part is not None for part in (arms, model, sampler, batching)) or settings:
            raise ConfigError("Give a specification, or arms and a model, not both.")
        return cls(creating.create(url, name, spec, clock, actor))

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | Database | None,
        name: str,
        *,
        clock: Callable[[], float] = time.time,
        actor: str | None = None,
        model: Model | None = None,
        sampler: Belief | Chain | Agent | None = None,
        batching: Batching | None = None,
    ) -> Experiment:
        """An experiment that exists. Parts made of functions, which no database holds, are given again.

        Several experiments of one process can share a `Database`, and with it their connections.
        """
        database = url if isinstance(url, Database) else Database(url, create=False)
        with database.read() as c:
            row = database.find(c, name)
        spec = Spec.from_json(row.spec, model=model, sampler=sampler, batching=batching)
        return cls(Session(database, name, spec, row, clock, actor))

    @notices
    def ask(
        self,
        n: int | None = None,
        request_id: str | None = None,
        *,
        units: Sequence[str] | None = None,
        contexts: Sequence[Mapping[str, Any]] | None = None,
        available: Sequence[Any] | None = None,
    ) -> Answer:
        """Decisions, stored before they are returned.

        Args:
            n: how many, by default one.
            request_id: any text; the same again returns the same decisions.
            units: whom they are for, one decision each: a unit that was asked for before gets its decision again, for ever.
                Units are stored as keyed hashes, never in clear.
            contexts: in an experiment that declares features, their values for each decision. A unit that has a decision keeps it,
                whatever its context is now.
            available: labels of the arms that these decisions can be, or such a list for each decision (None for all arms).

        Returns:
            The decisions, and where the experiment stands. There are fewer than asked for, and `why` says so, only where it is
            paused, `strict`, or stopped without a promoted arm. Units that have a decision get it all the same.
        """
        return asking.ask(self.session, request_of(self.session, n, units, request_id, contexts, available))

    @notices
    def request(
        self,
        n: int | None = None,
        request_id: str | None = None,
        *,
        units: Sequence[str] | None = None,
        contexts: Sequence[Mapping[str, Any]] | None = None,
        available: Sequence[Any] | None = None,
    ) -> Request:
        """What `ask` would be asked, checked and not yet answered: for `ask_together`. The arguments are those of `ask`.

        Raises:
            ConfigError: the request is none that `ask` takes.
        """
        return request_of(self.session, n, units, request_id, contexts, available)

    @notices
    def ask_together(self, requests: Sequence[Request]) -> list[Answer | BltsError]:
        """Answer many requests as if each had come alone and in this order, in as few transactions as possible.

        >>> from blts.live import Experiment
        >>> mail = Experiment.create("sqlite://", "mail", ["A", "B"], "conversions", sampler="exact", batching="fixed", seed=1)
        >>> asked = [mail.acting(who).request(units=[unit]) for who, unit in (("shop", "ann"), ("app", "bob"), ("app", "ann"))]
        >>> ann, bob, again = (answer.decisions[0] for answer in mail.ask_together(asked))
        >>> ann.id == again.id, ann.id == bob.id
        (True, False)
        >>> [line["actor"] for line in mail.audit() if line["what"] == "ask"]
        ['shop', 'app']

        Args:
            requests: made by `request`. Each is written down as the one who made it (`acting`).

        Returns:
            For each its answer, or the error that `ask` would have raised. Where all units of a request have their decisions, its
            `awaited` and `feedback_due` may be those from before the others.
        """
        return asking.ask_together(self.session, requests)

    def warm(self) -> None:
        """Compile what asks run, for every number of decisions, so that none has to wait for it."""
        deciding.compile_all(self.session)

    @notices
    def tell(
        self,
        rewards: Iterable[Any] = (),
        request_id: str | None = None,
        *,
        unit: str | None = None,
        reward: Any = None,
        metric: str | None = None,
    ) -> Told:
        """Record rewards, or values of a metric. Nothing raises for a bad row: the answer says what became of each.

        Args:
            rewards: pairs of a decision, or its id, and a reward, or mappings with "reward" and "decision_id" or "unit".
            request_id: any text; the same request again changes nothing.
            unit: with `reward`, short for one row about a unit.
            reward: of that unit.
            metric: whose values they are, if not rewards; mappings may then have "value" for "reward".

        Returns:
            How many rows were accepted, and what became of the others.
        """
        if not isinstance(rewards, Iterable) or isinstance(rewards, str | bytes | Mapping):
            raise ConfigError(
                f"tell takes a list of rows, each a decision id and a reward, such as [(decision.id, 1.0)]; got {shown(rewards)}."
            )
        rows = list(rewards) if unit is None else [*rewards, {"unit": unit, "reward": reward}]
        if metric is not None:
            return measuring.tell(self.session, rows, metric, request_id)
        objective.refuse_rewards(self.spec)
        return telling.tell(self.session, rows, request_id)

    @notices
    def expose(self, decision_ids: Sequence[str] = (), *, units: Sequence[str] = ()) -> int:
        """Record that decisions were carried out, in an experiment with `exposure="explicit"`, which learns from those alone.

        Args:
            decision_ids: their ids.
            units: or whom they were for.

        Returns:
            How many were not recorded before.
        """
        return exposing.expose(self.session, decision_ids, units)

    @notices
    def tell_exposures(self, decision_ids: Sequence[str] = (), *, units: Sequence[str] = ()) -> Told:
        """The same as `expose`, and nothing raises for an unknown decision: the answer says how many were accepted, and which were
        recorded before ("duplicate") or are unknown."""
        return exposing.tell(self.session, decision_ids, units)

    @notices
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
        """Totals of `count` rewards of an arm, which settle its oldest waiting decisions.

        Which of them has which reward is drawn at random, and once: a retry draws nothing. There are no decision ids to make it
        harmless, so a request id is required.
        """
        objective.refuse_rewards(self.spec)
        if self.spec.features:
            raise ConfigError("Totals do not say which contexts their rewards had; tell each reward with its decision or unit.")
        totals = {
            "total": total,
            "total_of_squares": total_of_squares,
            "positive": positive,
            "total_of_logs": total_of_logs,
            "total_of_squared_logs": total_of_squared_logs,
        }
        return telling.tell_aggregate(self.session, arm, count, totals, request_id)

    @notices
    def correct(self, decision_id: str, reward: float, reason: str = "", *, metric: str | None = None) -> bool:
        """Replace a reward by a new entry; the next refresh learns from it, unless it is private and was released.

        Args:
            decision_id: whose reward it is.
            reward: the right one.
            reason: for the audit log.
            metric: whose value it is, if it is no reward.

        Returns:
            False where it stood so already.
        """
        if metric is not None:
            return measuring.correct(self.session, decision_id, reward, metric, reason)
        objective.refuse_rewards(self.spec)
        return telling.correct(self.session, decision_id, reward, reason)

    @notices
    def cancel(self, decision_ids: Sequence[str], reason: str = "") -> int:
        """Decisions whose unit was never exposed: they count for nothing. How many were not cancelled before."""
        return telling.cancel(self.session, decision_ids, reason)

    @notices
    def refresh(self, *, force: bool = False, progress: bool | None = None) -> Refreshed:
        """Close the batch and write a new policy version, if all its rewards are in, their window has passed, or forced.

        Others go on asking and telling meanwhile; what they told enters the next refresh.

        Args:
            force: whether the batch is closed with the rewards that are in.
            progress: whether a sign moves while it works; None: in terminals and notebooks.

        Returns:
            The new version with its diagnostics, or why there is none.
        """
        with working(f"refreshing {self.name}", progress):
            objective.settle(self.session)
            return refreshing.refresh(self.session, bool(force))

    @notices
    def add_arm(self, label: str, metadata: dict[str, Any] | None = None, *, reason: str = "", **options: float) -> int:
        """A new arm from the next decision on; `options` are its own numbers of the model. The policy version it makes."""
        return arms.add_arm(self.session, label, metadata, options, reason)

    @notices
    def retire_arm(self, label: str, reason: str = "") -> int:
        """No more decisions for an arm; what it earned stays. The policy version it makes."""
        return arms.retire_arm(self.session, label, reason)

    @notices
    def stop(self, promote: str | None = None, reason: str = "") -> int:
        """End the experiment, for good. Rewards are still accepted.

        Args:
            promote: the arm of every new decision; units that have one keep it. None: no more decisions.
            reason: for the audit log.

        Returns:
            The policy version in use.
        """
        return arms.stop(self.session, promote, reason)

    @notices
    def pause(self, reason: str = "") -> None:
        """No decisions until `resume`; rewards are still accepted."""
        status.set_paused(self.session, True, reason)

    @notices
    def resume(self, reason: str = "") -> None:
        """Decisions again."""
        status.set_paused(self.session, False, reason)

    @notices
    def status(self) -> dict[str, Any]:
        """Where the experiment stands, as JSON could hold it."""
        found = status.status(self.session)
        return found | stopping.said(self, found)

    def verify(self) -> list[str]:
        """Replay the ledger and compare, bit for bit; the differences, of which there should be none."""
        from .verify import differences

        return differences(self.session)

    @notices
    def report(self, version: int | None = None, *, fresh: bool = False) -> Report:
        """What is known: estimates, checks and a recommendation.

        Args:
            version: of the policy with which the worker stored a report; by default what is known now.
            fresh: compute it now in any case. By default experiments of more than 50,000 decisions show the worker's last report,
                and "as_of" says when that was.

        Returns:
            The report, a dictionary that JSON can hold, with a picture of it: `report.plot()`.
        """
        if version is not None:
            return Report(reports.kept(self, version))
        return Report(reports.fresh(self) if fresh else reports.report(self))

    @notices
    def value(self, policy: str | Callable[[dict[str, Any]], Any] | Experiment) -> dict[str, Any]:
        """What a policy would have earned a unit in the contexts of this experiment, which must declare features.

        Args:
            policy: an arm's label for that arm always; a function from a context to a label, or to probabilities by label; or
                another experiment, for its policy in use. One that was chosen by the rewards of this experiment looks better than
                it is.

        Returns:
            "value" by AIPW, its standard error "se", "low" and "high" of a 95 % interval for one look, and "why" it is refused.

        Raises:
            ConfigError: the policy plays arms that this experiment could not, or is none.
        """
        from .valuing import value

        return value(self, policy)

    @notices
    def export(self, path: str | os.PathLike[str]) -> int:
        """Every decision with its propensities and reward, to a .csv or .parquet file; how many there are.

        Units are not in it, because only keyed hashes of them are stored. `ask(units=…)` of units that have a decision gives it
        again, with the id by which it is in the file. Times are in ISO 8601, UTC; timestamps in Parquet.
        """
        from .export import write

        return write(self, path)
