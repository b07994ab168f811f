"""What an experiment is: frozen when it is created, checked before anything is stored, kept as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import jax.numpy as jnp

from .. import models
from ..agents import Agent
from ..diagnosis import RHAT_LIMIT
from ..errors import BltsError, ConfigError, StoreError, did_you_mean, shown
from . import policy, priors
from .checks import check_densities, check_labels, check_support, outside
from .contextual import check_contextual, check_declared
from .delays import check_delay, check_weighable
from .durations import seconds_of
from .features import ArmColumns, Encoding, Feature, features_of, shown_to
from .metrics import objective
from .metrics.definition import Metric, metrics_of
from .metrics.stopping import StopRule, rule_of
from .parts import (
    SAID,
    Arm,
    ArmSetting,
    ArmsGiven,
    BatchingGiven,
    ModelGiven,
    Part,
    SamplerGiven,
    agent_of,
    arms_of,
    batching_of,
    check_spread,
    from_data,
    model_of,
    part_of,
    restricted,
    single_model,
    to_data,
    with_one_theta,
    with_prior_means,
)
from .private import Privacy, check_prior, check_privacy, check_private, privacy_of
from .settings import check_settings

FIRST_BATCHES = 100  # the proposed first batch of an arm is its share of the horizon divided by this
LARGEST_FIRST = 1024
BEFORE = {"learn": "open", "strict": True}
"""How experiments behave whose specification was stored before it said so."""
ABSENT = {"features": [], "arm_features": [], "shared": False, "privacy": None}
"""What a stored specification that does not name them is without."""
CONTEXTUAL_BEFORE = {"blts": {"gamma": 1.0, "control_variate": False}, "ula-ts": {"gamma": 1.0}}
"""What the names of samplers stood for with features, in experiments that were stored before `shared_noise`."""
READ: dict[str, Callable[[Any], Any]] = {
    "features": features_of,
    "arm_features": lambda given: features_of(given, "arm_features"),
    "metrics": metrics_of,
    "stop": rule_of,
    "window": lambda given: seconds_of("window", given) if isinstance(given, str | timedelta) else given,
    "refresh_seconds": lambda given: seconds_of("refresh_seconds", given) if isinstance(given, str | timedelta) else given,
    "forget": lambda given: seconds_of("forget", given) if isinstance(given, str | timedelta) else given,
    "privacy": privacy_of,
}
"""Settings that are written as tables, or as durations such as "1d"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """The definition of an experiment. `Spec.of` takes what people write; this holds it checked.

    >>> from blts.live import Spec
    >>> spec = Spec.of(["A", "B"], "conversions", floor=0.1, window="1d", default_reward=0)
    >>> spec.window, spec.floor, spec.sampler.name
    (86400.0, 0.1, 'thompson')
    >>> Spec.from_json(spec.to_json()) == spec
    True
    """

    arms: tuple[Arm, ...]
    model: Part
    sampler: Part
    batching: Part
    seed: int | None = None
    """What all chance comes from. None: a random one is drawn and stored when the experiment is created. Two experiments with the
    same seed that are asked in the same order give the same arms, so their effects cannot be told apart."""
    prior: priors.Prior | None = None
    """What is believed of an arm without rewards; None for the model's own numbers."""
    horizon: int = 10_000
    """Decisions that agents with a horizon (Bayes-UCB, BaSE, the grids) are tuned for; it stops nothing."""
    floor: float = 0.0
    """Probability that every arm has on top of what the agent gives it."""
    control: str | None = None
    """The arm that `control_share` goes to; by default the first."""
    control_share: float = 0.0
    burn_in: int = 0
    """Units that every arm gets before the agent decides alone."""
    window: float | None = None
    """Seconds after which a reward is no longer awaited."""
    learn: str = "closed"
    """With a window, "closed" learns only from decisions whose window is over. "open" also learns from rewards that come earlier:
    then arms whose successes come fast look better than they are while failures, which are silence, are not known yet."""
    exposure: str = "assumed"
    """Whether every decision is carried out ("assumed"), or only those that `expose` names are learned from ("explicit")."""
    strict: bool = False
    """Make no decision between the end of a batch and its refresh, as Algorithm 2 is printed. By default the policy in use goes on
    deciding while the rewards of a closed batch are awaited."""
    refresh_rewards: int | None = None
    """Refresh also after so many new entries of rewards, whether or not the batch is closed."""
    refresh_seconds: float | None = None
    """Refresh also so many seconds after the last refresh, if there is anything new to learn from."""
    forget: float | None = None
    """Refreshes do not learn from decisions that are older than so many seconds, where rewards change with time; None for all."""
    delay: str | None = None
    """With "learned", refreshes also learn from decisions whose window is open: one that is still silent counts as a failure of the
    weight that its age calls for, by the delays of conversions so far (`delays`). None: they wait for the end of the window."""
    privacy: Privacy | None = None
    """How much the policy may tell of one person's reward: {"rho": 1.0, "low": 0, "high": 1}. Refreshes then learn from noisy sums,
    each reward in one of them (`releases`). None: from the rewards."""
    default_reward: float | None = None
    """What a decision has earned whose window passed in silence; without it such a decision is left out."""
    cap: float | None = None
    """Rewards above it count as this much in reports; learning is not capped."""
    rhat: float = RHAT_LIMIT
    """A refresh whose chains disagree by more is not used; nor is one of which more chains are stuck than `diagnosis` allows."""
    floors_first: bool = False
    """Whether floors hold during burn-in too (`policy.mix`): in all experiments but those that were stored before this was so."""
    shared_noise: bool = False
    """Whether, with features, a chain and the draws around its end have half of the posterior's covariance each: in all experiments
    but those that were stored before this was so."""
    draw: str = "auto"
    """Who chooses: "agent", "vector" for a draw from the stored propensities, "auto" for the agent where its
    propensities are exact and the vector elsewhere."""
    metrics: tuple[Metric, ...] = ()
    """What is measured besides the rewards: guardrails and secondary metrics."""
    objective: dict[str, float] | None = None
    """Metrics and weights, whose weighted sum is the reward once the windows of all are over; without it rewards are told."""
    stop: StopRule | None = None
    """When a worker recommends an arm, or ends the experiment."""
    features: tuple[Feature, ...] = ()
    """What every decision is told of its unit: {"age": [18, 90], "country": ["DE", "FR"], "returning": "boolean"}."""
    arm_features: tuple[Feature, ...] = ()
    """What is known of every arm, declared in the same way; the values are in the arms' metadata."""
    shared: bool = False
    """Whether all arms have one θ: of the context and its products with the arms' features, or where these have none of the context
    and an indicator of each arm. By default every arm has its own θ of the context."""

    @staticmethod
    def of(
        arms: ArmsGiven,
        model: ModelGiven,
        sampler: SamplerGiven = "thompson",
        batching: BatchingGiven = "doubling",
        **settings: Any,
    ) -> Spec:
        """A checked specification from names, mappings or objects.

        Args:
            arms: labels, or a mapping from labels to what is known of them.
            model: what is believed of the rewards.
            sampler: how arms are chosen.
            batching: when batches close.
            settings: the other fields of this class. `prior` is "learned", "40 ± 15" (an arm's mean reward is 40, give or take 15),
                "8% to 12%" (a rate, with probability 95 %), or a table; see `priors`. Without one it is learned, unless the model
                has numbers of its own for it or is an object.

        Returns:
            The specification.

        Raises:
            ConfigError: an experiment cannot run on it.

        >>> from blts.live import Spec
        >>> Spec.of(["A", "B"], "bernoulli", "exact", "external", seed=3).sampler.words
        'exact'
        """
        known = {field.name for field in dataclasses.fields(Spec)} - {
            "arms",
            "model",
            "sampler",
            "batching",
            "floors_first",
            "shared_noise",
        }
        for name in settings:
            if name not in known:
                known |= {"arms", "model", "sampler", "batching"}
                hint = did_you_mean(name, known)
                raise ConfigError(f"An experiment has no setting {name!r}.{hint} Its settings: {', '.join(sorted(known))}.")
        prior = settings.pop("prior", None)
        try:
            settings |= {name: read(settings[name]) for name, read in READ.items() if name in settings}
            spec = Spec(
                arms=arms_of(arms),
                model=part_of("model", model),
                sampler=part_of("agent", sampler),
                batching=part_of("batching", batching),
                floors_first=True,
                shared_noise=True,
                **settings,
            )
            check_declared(spec)
            if spec.features:
                spec = dataclasses.replace(spec, model=with_prior_means(spec.model, spec.width))
            spec.check()
            check_spread(spec.model)
            spec = dataclasses.replace(spec, prior=spec._prior(prior))
            check_prior(spec)
        except BltsError:
            raise
        except (TypeError, ValueError, RecursionError, OverflowError) as error:  # values that cannot even be printed
            raise ConfigError(f"A specification cannot have such a value ({type(error).__name__}: {shown(str(error))}).") from error
        if spec.control_share and spec.control is None:
            spec = dataclasses.replace(spec, control=spec.arms[0].label)
        return spec._with_first_batches()

    def _with_first_batches(self) -> Spec:
        """Doubling that starts at a proposed size where none is stated: an arm's share of the horizon over `FIRST_BATCHES`."""
        if self.strict or self.batching.name != "dynamic" or self.batching.options:
            return self
        first = 2 ** max(0, round(math.log2(self.horizon / (FIRST_BATCHES * len(self.arms)))))
        return dataclasses.replace(self, batching=self.batching._replace(options={"first": min(first, LARGEST_FIRST)}))

    def seeded(self) -> Spec:
        """With a seed: the stated one, or one drawn from the operating system's randomness."""
        return self if self.seed is not None else dataclasses.replace(self, seed=secrets.randbits(32))

    def differs_from(self, stored: str) -> list[str]:
        """The settings in which a stored specification differs. One that it does not have is newer than it and may be anything."""
        mine, theirs = json.loads(self.to_json()), ABSENT | json.loads(stored)
        if self.seed is None:
            mine["seed"] = theirs["seed"]
        if "strict" not in theirs and self.batching.name is not None and set(self.batching.options) == {"first"}:
            mine["batching"]["options"] = {}  # a size of the first batch was not proposed then
        for data in (mine, theirs):
            for name in ("model", "sampler", "batching"):
                data[name].pop(SAID, None)  # another name for the same
        found = [name for name, value in theirs.items() if mine.get(name) != value]
        # A first batch that is proposed follows from other settings: those are what was stated differently.
        derived = [data["batching"] for data in (mine, theirs)]
        proposed = all(one.get("name") == "dynamic" and set(one.get("options", {})) == {"first"} for one in derived)
        from_others = {"arms", "horizon", "strict"} & set(found)
        return [name for name in found if not (name == "batching" and proposed and from_others)]

    def check(self) -> None:
        """Refuse what no experiment can run on (`ConfigError`)."""
        check_labels([arm.label for arm in self.arms])
        check_settings(self)
        if self.control is not None and not (isinstance(self.control, str) and self.control in [arm.label for arm in self.arms]):
            raise ConfigError(f"The control {shown(self.control)} is none of the arms.")
        if self.floor * len(self.arms) + self.control_share >= 1:
            raise ConfigError(
                f"Floors of {self.floor:g} for {len(self.arms)} arms and a control share of {self.control_share:g} leave nothing "
                "to the agent; take smaller ones."
            )
        if self.default_reward is not None and self.window is None:
            raise ConfigError('A default reward needs an attribution window; give one too, such as window="1d".')
        if self.forget is not None and self.window is not None and self.learn == "closed" and self.forget <= self.window:
            raise ConfigError(
                "forget must be longer than the window, or decisions would be forgotten before they are learned from."
            )
        check_delay(self)
        check_privacy(self)
        metrics_of(self.metrics)
        rule_of(self.stop)
        self._check_counts()
        built = self.build(tuple(range(len(self.arms))), self.arms)
        policy.check_agent(built.agent, self.sampler.words)
        check_support(built.model)
        check_weighable(self, built)
        check_private(self, built)
        check_contextual(self, built)
        if self.model.is_own and not self.features:
            check_densities(built.model)
        objective.check(self, built.model)
        if self.default_reward is not None:
            sentence = outside(built.model, self.default_reward)
            if sentence:
                raise ConfigError(f"The default reward {self.default_reward:g} cannot occur: {sentence}.")

    def _prior(self, given: object) -> priors.Prior | None:
        """The prior that was given, or is learned because none was."""
        if self.features:
            if given is not None:
                raise ConfigError("With features, state the prior as prior_mean and prior_sd of the model; leave out prior=….")
            return None
        model = single_model(self.model)
        uses = self.build(tuple(range(len(self.arms))), self.arms).agent.model is not None
        if given is None:
            own = self.model.is_own or set(priors.prior_names(model)) & set(self.model.options)
            return priors.Prior(priors.LEARNED, {}) if uses and priors.prior_names(model) and not own else None
        if not uses:
            raise ConfigError(f"{self.sampler.words} has no prior; leave out prior=….")
        return priors.of(model, given)

    def _check_counts(self) -> None:
        """Objects that say a number of arms say this one; later, arms may come and go."""
        said = {
            "model": models.arm_count(single_model(self.model)) if self.model.is_own else None,
            "sampler": self.sampler.value.actions if isinstance(self.sampler.value, Agent) else None,
        }
        for name, count in said.items():
            if count is not None and count != len(self.arms):
                raise ConfigError(f"The {name} describes {count} arms and the experiment has {len(self.arms)}; give both the same.")

    def model_of(self, active: tuple[int, ...], arms: Sequence[Arm], learned: Mapping[str, float] | None = None) -> models.Model:
        """The model of the active ones of all arms there have been; the arguments are those of `build`."""
        said = {} if self.prior is None else self.prior.numbers
        return restricted(model_of(self.model, arms, said | dict(learned or {})), active)

    def build(self, active: tuple[int, ...], arms: Sequence[Arm], learned: Mapping[str, float] | None = None) -> policy.Built:
        """The objects that decide among the active ones of all arms there have been.

        Args:
            active: places of the active arms.
            arms: all there have been.
            learned: numbers of a prior that is learned.

        Returns:
            The model, the agent, the batching and what is mixed in.
        """
        model = self.model_of(active, arms, learned)
        setting = ArmSetting(model, len(active), self.horizon)
        agent = agent_of(self._sampler, setting)
        columns = self.arm_columns(active, arms)
        if columns is not None:
            agent = with_one_theta(agent, columns)
            model = agent.model
            setting = setting._replace(model=model, shared=True, features=columns)
        if agent.actions != len(active):
            raise ConfigError(f"{self.sampler.words} plays {agent.actions} arms and the experiment has {len(active)}.")
        mixture = self.mixture([arms[i].label for i in active])
        obs = shown_to(len(self.encoding.columns), len(active)) if self.encoding is not None else ()
        return policy.Built(model, agent, batching_of(self.batching, setting), mixture, obs)

    @property
    def _sampler(self) -> Part:
        """The sampler, with the numbers that its name stood for when the experiment was stored."""
        stood_for = {} if self.shared_noise or not self.features else CONTEXTUAL_BEFORE.get(self.sampler.name or "", {})
        return self.sampler._replace(options=stood_for | self.sampler.options) if stood_for else self.sampler

    def mixture(self, labels: Sequence[str]) -> policy.Mixture:
        """What is mixed into the propensities of arms with these labels."""
        added = [self.floor + (self.control_share if label == self.control else 0.0) for label in labels]
        return policy.Mixture(jnp.asarray(added, float), jnp.asarray(self.burn_in), self.floors_first)

    @property
    def encoding(self) -> Encoding | None:
        """How contexts become numbers; None without features."""
        return Encoding(self.features) if self.features else None

    @property
    def width(self) -> int:
        """How many numbers the rewards of an arm depend on."""
        x, columns = len(Encoding(self.features).columns), self.arm_columns(tuple(range(len(self.arms))), self.arms)
        return x if columns is None else x * (1 + columns.width) if columns.products else x + columns.width

    def arm_columns(self, active: tuple[int, ...], arms: Sequence[Arm]) -> ArmColumns | None:
        """The features of the active arms where all have one θ; None where each has its own. The arguments are those of `build`."""
        if not self.shared:
            return None
        if not self.arm_features:
            return ArmColumns(tuple(tuple(float(i == k) for k in range(len(self.arms))) for i in active), products=False)
        rows = {i: self.arm_numbers(arms[i]) for i in active}
        return ArmColumns(tuple(rows[i] for i in active), products=True)

    def arm_numbers(self, arm: Arm) -> tuple[float, ...]:
        """The numbers of an arm's declared features (`ConfigError` where its metadata lacks one)."""
        names = {feature.name for feature in self.arm_features}
        own = {name: value for name, value in arm.metadata.items() if name in names}
        where = f"The metadata of the arm {arm.label!r}"
        return tuple(Encoding(self.arm_features).encoded(Encoding(self.arm_features).checked(own, where))[1:])

    # As text

    def to_json(self) -> str:
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        data["arms"] = [{name: value for name, value in arm._asdict().items() if value or name == "label"} for arm in self.arms]
        for name in ("model", "sampler", "batching"):
            data[name] = to_data(name, getattr(self, name))
        data["prior"] = None if self.prior is None else self.prior._asdict()
        data["metrics"] = [metric._asdict() for metric in self.metrics]
        data["stop"] = None if self.stop is None else self.stop._asdict()
        data["privacy"] = None if self.privacy is None else self.privacy._asdict()
        for name in ("features", "arm_features"):
            data[name] = [feature.data for feature in getattr(self, name)]
        if self.encoding is not None:
            data["encoding"] = self.encoding.words
        return json.dumps(data, sort_keys=True)

    @staticmethod
    def from_json(text: str, **given: Any) -> Spec:
        """The specification that `to_json` wrote; `given` has the objects that JSON could not hold."""
        try:
            data = BEFORE | json.loads(text)
            encoding = data.pop("encoding", None)
            data["arms"] = tuple(Arm(arm["label"], arm.get("metadata", {}), arm.get("options", {})) for arm in data["arms"])
            for name in ("model", "sampler", "batching"):
                data[name] = from_data(name, data[name], given.get(name))
            if data.get("prior") is not None:
                data["prior"] = priors.Prior(**data["prior"])
            data |= {name: read(data[name]) for name, read in READ.items() if name in data}
            spec = Spec(**data)
            check_settings(spec)
            if encoding != (None if spec.encoding is None else spec.encoding.words):
                raise StoreError(
                    "This experiment's contexts were encoded otherwise than this blts does; install the blts that wrote it."
                )
        except BltsError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"The stored specification is not one that blts wrote ({type(error).__name__}: {shown(str(error))}); "
                "restore the database from a backup."
            ) from None
        return spec

    @staticmethod
    def read(path: str | pathlib.Path) -> Spec:
        """A specification from a TOML or JSON file."""
        path = pathlib.Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
        except OSError as error:
            raise ConfigError(f"The specification {path} cannot be read ({error.strerror}).") from None
        except UnicodeDecodeError:
            raise ConfigError(f"The specification {path} is not text in UTF-8.") from None
        except (ValueError, RecursionError) as error:  # NUL in the path, or a text that is not TOML, JSON or UTF-8
            raise ConfigError(f"The specification {path} is not valid {path.suffix.lstrip('.') or 'JSON'}: {error}.") from None
        return from_mapping(data)


def from_mapping(data: object) -> Spec:
    """A specification from what a TOML or JSON file holds."""
    if not isinstance(data, dict):
        raise ConfigError('A specification is a table with at least "arms" and "model".')
    if lacks := [name for name in ("arms", "model") if name not in data]:
        hint = did_you_mean(lacks[0], data)
        raise ConfigError(
            f'A specification is a table with at least "arms" and "model"; this one has no {lacks[0]!r}.'
            + hint.replace("Did you mean", "Is it meant by")
        )
    return Spec.of(**data)
