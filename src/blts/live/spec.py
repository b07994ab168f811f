"""What an experiment is: frozen when it is created, checked before anything is stored, kept as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import registry
from .._module import from_json, to_json
from ..agents import Perturb, Thompson
from ..errors import BltsError, ConfigError
from ..models import base as models
from ..samplers import Chain
from . import policy

SAMPLERS = {"sgld": "blts", "exact": "exact-ts", "ula": "ula-ts", "mala": "mala-ts"}
"""Short names of the Thompson agents."""
BATCHINGS = {"doubling": "dynamic"}
EXTERNAL = "external"
"""The batching that leaves batches to the user; it is no state machine, so no simulation has it."""
MOST_ARMS = 1000


class Arm(NamedTuple):
    label: str
    metadata: dict[str, Any] = {}  # noqa: RUF012
    options: dict[str, float] = {}  # noqa: RUF012
    """Numbers of the model that are this arm's own, for an arm that was added later."""


class Part(NamedTuple):
    """A model, a sampler or a batching: by name and options, as an object, or one that must be given at every opening."""

    name: str | None
    options: dict[str, Any]
    value: Any = None

    @property
    def words(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({options})" if options else self.name or repr(self.value)


class World(NamedTuple):
    """What the builders of agents and batchings are told of an experiment."""

    model: Any
    actions: int
    horizon: int
    counted_states: int = 1

    def weight(self, pseudo_count: Any) -> float:
        if isinstance(pseudo_count, str | bool) or pseudo_count is None:
            return 0.0
        return pseudo_count


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spec:
    """The definition of an experiment. `Spec.of` takes what people write; this holds it checked."""

    arms: tuple[Arm, ...]
    model: Part
    sampler: Part
    batching: Part
    seed: int = 0
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
    default_reward: float | None = None
    """What a decision has earned whose window passed in silence; without it such a decision is left out."""
    cap: float | None = None
    """Rewards above it count as this much in reports; learning is not capped."""
    rhat: float = 1.5
    """A refresh whose chains disagree by more is not used. Split R-hat of a pool's few steps is 1.15 to 1.35 when all is
    well (the halves are short and correlated), and far above 2 where chains have not found the posterior."""
    draw: str = "auto"
    """Who chooses: "agent", "vector" for a draw from the stored propensities, "auto" for the agent where its
    propensities are exact and the vector elsewhere."""

    @staticmethod
    def of(arms: Any, model: Any, sampler: Any = "blts", batching: Any = "doubling", **settings: Any) -> Spec:
        """A checked specification from names, mappings or objects.

        >>> from blts.live import Spec
        >>> Spec.of(["A", "B"], "bernoulli", "exact", "external", seed=3).sampler.words
        'exact-ts'
        """
        known = {field.name for field in dataclasses.fields(Spec)} - {"arms", "model", "sampler", "batching"}
        for name in settings:
            if name not in known:
                raise ConfigError(f"An experiment has no setting {name!r}; its settings: {', '.join(sorted(known))}.")
        spec = Spec(
            arms=tuple(_arm(arm) for arm in _several(arms)),
            model=_part("model", model, {}),
            sampler=_part("agent", sampler, SAMPLERS),
            batching=_part("batching", batching, BATCHINGS),
            **settings,
        )
        spec.check()
        return spec

    def check(self) -> None:
        _check_labels([arm.label for arm in self.arms])
        _check_numbers(self)
        if self.control is not None and self.control not in [arm.label for arm in self.arms]:
            raise ConfigError(f"The control {self.control!r} is none of the arms.")
        if self.control_share and self.control is None:
            object.__setattr__(self, "control", self.arms[0].label)
        if self.floor * len(self.arms) + self.control_share >= 1:
            raise ConfigError(
                f"Floors of {self.floor:g} for {len(self.arms)} arms and a control share of {self.control_share:g} leave nothing "
                "to the agent; take smaller ones."
            )
        if self.default_reward is not None and self.window is None:
            raise ConfigError("A default reward needs an attribution window; give window=… seconds too.")
        self._check_counts()
        built = self.build(tuple(range(len(self.arms))), self.arms)
        policy.check_agent(built.agent, self.sampler.words)
        if self.default_reward is not None:
            sentence = outside(built.model, self.default_reward)
            if sentence:
                raise ConfigError(f"The default reward {self.default_reward:g} cannot occur: {sentence}.")

    def _check_counts(self) -> None:
        """Objects that say a number of arms say this one; later, arms may come and go."""
        said = {
            "model": models.arm_count(self.model.value) if isinstance(self.model.value, models.Model) else None,
            "sampler": getattr(self.sampler.value, "actions", None),
        }
        for name, count in said.items():
            if count is not None and count != len(self.arms):
                raise ConfigError(f"The {name} describes {count} arms and the experiment has {len(self.arms)}; give both the same.")

    def build(self, active: tuple[int, ...], arms: Sequence[Arm]) -> Built:
        """The objects that decide among the active ones of all arms there have been."""
        model = restricted(model_of(self.model, arms), active)
        world = World(model, len(active), self.horizon)
        agent = _agent(self.sampler, world)
        if agent.actions != len(active):
            raise ConfigError(f"{self.sampler.words} plays {agent.actions} arms and the experiment has {len(active)}.")
        labels = [arms[i].label for i in active]
        added = [self.floor + (self.control_share if label == self.control else 0.0) for label in labels]
        mixture = policy.Mixture(jnp.asarray(added, float), jnp.asarray(self.burn_in))
        return Built(model, agent, _batching(self.batching, world), mixture)

    # As text

    def to_json(self) -> str:
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        data["arms"] = [{name: value for name, value in arm._asdict().items() if value or name == "label"} for arm in self.arms]
        for name in ("model", "sampler", "batching"):
            data[name] = _part_to_data(getattr(self, name))
        return json.dumps(data, sort_keys=True)

    @staticmethod
    def from_json(text: str, **given: Any) -> Spec:
        """The specification that `to_json` wrote; `given` has the objects that JSON could not hold."""
        data = json.loads(text)
        data["arms"] = tuple(Arm(arm["label"], arm.get("metadata", {}), arm.get("options", {})) for arm in data["arms"])
        for name in ("model", "sampler", "batching"):
            data[name] = _part_from_data(name, data[name], given.get(name))
        return Spec(**data)

    @staticmethod
    def read(path: str | pathlib.Path) -> Spec:
        """A specification from a TOML or JSON file."""
        path = pathlib.Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
        except OSError as error:
            raise ConfigError(f"The specification {path} cannot be read ({error.strerror}).") from None
        except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"The specification {path} is not valid {path.suffix.lstrip('.') or 'JSON'}: {error}.") from None
        return from_mapping(data)


class Built(NamedTuple):
    model: Any
    agent: Any
    batching: Any
    mixture: policy.Mixture


def from_mapping(data: Any) -> Spec:
    """A specification from what a TOML or JSON file holds."""
    if not isinstance(data, dict) or "arms" not in data or "model" not in data:
        raise ConfigError('A specification is a table with at least "arms" and "model".')
    return Spec.of(**data)


# Checks


def check_text(what: str, text: Any, longest: int = 200) -> str:
    """Refuse what a database cannot hold: empty or endless text, NUL, and halves of characters."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{what} must be text that is not empty; got {text!r}.")
    if len(text) > longest:
        raise ConfigError(f"{what} must have at most {longest} characters; this has {len(text)}.")
    if "\x00" in text or any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        raise ConfigError(f"{what} must not contain NUL or lone surrogates; got {text!r}.")
    return text


def _check_labels(labels: list[Any]) -> None:
    if not 1 <= len(labels) <= MOST_ARMS:
        raise ConfigError(f"An experiment has between 1 and {MOST_ARMS} arms; got {len(labels)}.")
    for label in labels:
        check_text("An arm's label", label)
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        raise ConfigError(f"Arms need labels of their own; {sorted(twice)[0]!r} is given twice.")


def _check_numbers(spec: Spec) -> None:
    def number(name: str, holds: Any, sentence: str, whole: bool = False, optional: bool = False) -> None:
        value = getattr(spec, name)
        if optional and value is None:
            return
        kinds = int if whole else int | float
        if not isinstance(value, kinds) or isinstance(value, bool) or not math.isfinite(value) or not holds(value):
            raise ConfigError(f"{name} must be {sentence}; got {value!r}.")

    number("seed", lambda x: 0 <= x < 2**32, "a whole number from 0 to 2**32 - 1", whole=True)
    number("horizon", lambda x: x >= 1, "a whole number ≥ 1", whole=True)
    number("floor", lambda x: 0 <= x < 1, "a probability below 1")
    number("control_share", lambda x: 0 <= x < 1, "a probability below 1")
    number("burn_in", lambda x: 0 <= x < 2**31, "a whole number of units ≥ 0", whole=True)
    number("window", lambda x: x >= 0, "a number of seconds ≥ 0", optional=True)
    number("default_reward", lambda x: True, "a finite number", optional=True)
    number("cap", lambda x: True, "a finite number", optional=True)
    number("rhat", lambda x: x > 1, "a number above 1")
    if spec.draw not in ("auto", "agent", "vector"):
        raise ConfigError(f'draw must be "auto", "agent" or "vector"; got {spec.draw!r}.')


SUPPORTS = {
    "real": (lambda r: True, "any finite number"),
    "positive": (lambda r: r > 0, "above zero"),
    "nonnegative": (lambda r: r >= 0, "zero or above"),
    "count": (lambda r: r >= 0 and r == int(r), "0, 1, 2, …"),
    "binary": (lambda r: r in (0.0, 1.0), "0 or 1"),
}
LARGEST = 1e30  # single precision ends at 3e38, and a square must not pass it


def outside(model: Any, reward: float) -> str | None:
    """Why a reward cannot be learned from, or None where it can."""
    if not math.isfinite(reward):
        return "a reward must be finite"
    if abs(reward) > LARGEST:
        return f"a reward must be between {-LARGEST:g} and {LARGEST:g}"
    holds, words = SUPPORTS[getattr(model, "support", "real")]
    return None if holds(reward) else f"rewards of this model are {words}"


# Parts


def _several(arms: Any) -> list[Any]:
    if isinstance(arms, Mapping):
        return [{"label": label, "metadata": metadata} for label, metadata in arms.items()]
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        raise ConfigError(f"arms must be a list of labels, or a mapping from labels to what is known of them; got {arms!r}.")
    return list(arms)


def _arm(arm: Any) -> Arm:
    if isinstance(arm, Arm):
        return arm
    if isinstance(arm, Mapping):
        if set(arm) - {"label", "metadata"} or "label" not in arm:
            raise ConfigError(f'An arm is a label, or a table with "label" and "metadata"; got {dict(arm)!r}.')
        return Arm(arm["label"], check_metadata(arm.get("metadata", {})))
    return Arm(arm)


def check_metadata(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"An arm's metadata must be a table of names and values; got {metadata!r}.")
    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError):
        raise ConfigError(f"An arm's metadata must be what JSON can hold; got {metadata!r}.") from None


def _part(kind: str, given: Any, aliases: dict[str, str]) -> Part:
    if isinstance(given, Part):
        return given
    if isinstance(given, Mapping):
        options = dict(given)
        name = options.pop("name", None)
        options |= options.pop("options", {})
        if not isinstance(name, str):
            raise ConfigError(f'A {kind} is a name, or a table with "name" and its options; got {dict(given)!r}.')
        given = name
    else:
        options = {}
    if not isinstance(given, str):
        return Part(None, {}, given)
    name = aliases.get(given, given)
    if not (kind == "batching" and name == EXTERNAL):
        registry.find(kind, name)
    elif options:
        raise ConfigError(f"The batching {EXTERNAL!r} has no options.")
    return Part(name, options)


def _part_to_data(part: Part) -> dict[str, Any]:
    if part.name is not None:
        return {"name": part.name, "options": part.options}
    try:
        return {"object": to_json(part.value)}
    except BltsError:
        return {"given": repr(part.value)}


def _part_from_data(kind: str, data: dict[str, Any], given: Any) -> Part:
    if "name" in data:
        return Part(data["name"], data["options"])
    if "object" in data:
        return Part(None, {}, from_json(data["object"]))
    if given is None:
        raise ConfigError(f"The {kind} of this experiment is made of functions, which no database holds; open it with {kind}=….")
    if repr(given) != data["given"]:
        raise ConfigError(f"The {kind} of this experiment is {data['given']}; this is {given!r}.")
    return Part(None, {}, given)


def _plain(value: Any) -> Any:
    """Lists of a TOML file as tuples, which options may be."""
    return tuple(value) if isinstance(value, list) else value


def _built(kind: str, part: Part, *context: Any) -> Any:
    try:
        return registry.build(kind, part.name or "", *context, **{name: _plain(value) for name, value in part.options.items()})
    except (TypeError, ValueError) as error:
        if isinstance(error, BltsError):
            raise
        raise ConfigError(f"The {kind} {part.words} cannot be built: {error}.") from None


def model_of(part: Part, arms: Sequence[Arm]) -> Any:
    """The model of all arms there have been, stacked."""
    model = part.value if part.name is None else _built("model", part)
    if not isinstance(model, models.Model):
        raise ConfigError(f"A model must have init, log_prior, log_likelihood and mean_reward; got {model!r}.")
    if getattr(model, "contextual", False):
        raise ConfigError("This model needs a context for each decision, which an experiment does not keep; use one without.")
    own = models.arm_count(model)
    if own is None and not any(arm.options for arm in arms):
        return models.stack(model, len(arms))
    if own is None:
        rows = [_with_options(model, arm) for arm in arms]
    elif own == len(arms):
        return models.stack(model, own)
    else:
        stacked, names = models.stack(model, own), _own_numbers(model)
        rows = [models.arm(stacked, jnp.asarray(i)) for i in range(own)]
        rows += [_with_options(models.first_arm(model), arm, names) for arm in arms[own:]]
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *rows)


def _own_numbers(model: Any) -> set[str]:
    """The numbers of a model that differ between arms."""
    return {n.name for n in models._numbers(model) if jnp.ndim(n.value) > n.ndim}


def _with_options(single: Any, arm: Arm, own: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    lacking = own - set(arm.options)
    if lacking:
        raise ConfigError(f"The arms of this model differ in {', '.join(sorted(lacking))}; give it for the arm {arm.label!r} too.")
    known = {n.name for n in models._numbers(single)}
    for name in arm.options:
        if name not in known:
            raise ConfigError(f"The model has no number {name!r}; its numbers: {', '.join(sorted(known))}.")
    return dataclasses.replace(single, **arm.options)


def restricted(model: Any, active: tuple[int, ...]) -> Any:
    """The stacked model of some arms; the same object where all are active."""
    leaves = jax.tree.leaves(model)
    if leaves and active == tuple(range(leaves[0].shape[0])):
        return model
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.asarray(active)], model)


def _agent(part: Part, world: World) -> Any:
    if part.name is not None:
        entry = registry.find("agent", part.name)
        if "bandit" not in entry.about.get("worlds", ("bandit",)):
            raise ConfigError(f"The agent {part.name!r} is for MDPs and cannot run an experiment; use blts, exact-ts or ucb1.")
        return _built("agent", part, world)
    value: Any = part.value
    if isinstance(value, Chain):
        value = Perturb(value)
    if hasattr(value, "refresh") and hasattr(value, "check_model"):
        return Thompson(world.model, value, world.actions)
    names = set(getattr(value, "__dataclass_fields__", ()))
    if "actions" in names and "model" not in names:
        return value if value.actions == world.actions else dataclasses.replace(value, actions=world.actions)
    raise ConfigError(
        f"A sampler is a name, a belief such as Exact() or Perturb(sgld()), or an agent without a model; got {value!r}."
    )


def _batching(part: Part, world: World) -> Any:
    if part.name == EXTERNAL:
        return policy.Never()
    if part.name is not None:
        return _built("batching", part, world)
    if not hasattr(part.value, "step"):
        raise ConfigError(f"A batching is a name or a scheme such as DoublingCounts(); got {part.value!r}.")
    return part.value
