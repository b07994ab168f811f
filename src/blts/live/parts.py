"""The parts of an experiment, a model, a sampler and a batching: from names or objects, as JSON, and built for some arms."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .. import models, plugins, registry
from .._module import from_json, require_part, to_json
from ..agents import Agent, Belief, Perturb, Thompson
from ..batching import Batching
from ..contexts import Features
from ..errors import BltsError, ConfigError, UnknownName, shown
from ..models import Model
from ..samplers import Chain
from .checks import metadata_as_json
from .policy import Never
from .priors import with_numbers

SAMPLERS = {"sgld": "blts", "exact": "exact-ts", "ula": "ula-ts", "mala": "mala-ts"}
"""Short names of the Thompson agents."""
BATCHINGS = {"doubling": "dynamic"}
MODELS = {
    "conversions": "bernoulli",
    "counts": "poisson",
    "numbers": "gaussian-unknown-variance",
    "revenue": "zero-inflated-log-normal",
}
"""Names of models by what is rewarded."""
KNOWN_SPREAD = {
    "gaussian": ("sd", "numbers"),
    "laplace": ("scale", "numbers"),
    "student-t": ("scale", "numbers"),
    "gamma": ("shape", "revenue"),
    "linear": ("sd", "linear-unknown-variance"),
}
"""Models that take the spread of rewards as known: the number that says it, and a model that learns it."""
EXTERNAL = "external"
"""The batching that leaves batches to the user; it is no state machine, so no simulation has it."""


SAID = "said"
"""Where a part's JSON has the short name that was given."""


class Arm(NamedTuple):
    """An arm of an experiment: a label, and what is known of it.

    >>> from blts.live import Arm, Spec
    >>> Spec.of({"A": {"colour": "green"}, "B": {"colour": "blue"}}, "conversions").arms[0]
    Arm(label='A', metadata={'colour': 'green'}, options={})
    """

    label: str
    metadata: dict[str, Any] = {}  # noqa: RUF012
    options: dict[str, float] = {}  # noqa: RUF012
    """Numbers of the model that are this arm's own, for an arm that was added later."""


def arms_of(given: object) -> tuple[Arm, ...]:
    """Arms as they may be given: labels, tables, or a mapping from labels to what is known of them."""
    return tuple(_arm(arm) for arm in _several(given))


def _several(arms: object) -> list[Any]:
    if isinstance(arms, Mapping):
        return [{"label": label, "metadata": metadata} for label, metadata in arms.items()]
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        raise ConfigError(f"arms must be a list of labels, or a mapping from labels to what is known of them; got {shown(arms)}.")
    return list(arms)


def _arm(arm: Any) -> Arm:
    if isinstance(arm, Arm):
        return arm
    if isinstance(arm, Mapping):
        if set(arm) - {"label", "metadata"} or "label" not in arm:
            raise ConfigError(f'An arm is a label, or a table with "label" and "metadata"; got {shown(dict(arm))}.')
        return Arm(arm["label"], metadata_as_json(arm.get("metadata", {})))
    return Arm(arm)


class Part(NamedTuple):
    """A model, a sampler or a batching: by name and options, as an object, or one that must be given at every opening."""

    name: str | None
    options: dict[str, Any]
    value: Any = None
    said: str | None = None
    """The name that was given, where it is short for the registered one: "conversions" for "bernoulli"."""

    @property
    def is_own(self) -> bool:
        """Whether it is the user's own: an object, or named by its import path."""
        return self.name is None or ":" in self.name

    @property
    def words(self) -> str:
        options = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        name = self.said or self.name
        return f"{name}({options})" if options else name or repr(self.value)


def _short(value: Any) -> str:
    """An option in words; equal numbers of a list are written once."""
    if isinstance(value, list | tuple) and len(value) > 1 and all(one == value[0] for one in value):
        return f"{value[0]} (×{len(value)})"
    return str(value)


ArmsGiven: TypeAlias = "Sequence[str | Arm | Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]"
ModelGiven: TypeAlias = "str | Mapping[str, Any] | Model"
SamplerGiven: TypeAlias = "str | Mapping[str, Any] | Belief | Chain | Agent"
BatchingGiven: TypeAlias = "str | Mapping[str, Any] | Batching"
"""What people may write: a name, a mapping with a name and options, or an object."""


class ArmSetting(NamedTuple):
    """What the builders of agents and batchings are told of an experiment."""

    model: Model
    actions: int
    horizon: int
    states: int = 1
    shared: bool = False
    features: Features | None = None

    @property
    def arms(self) -> int:
        return self.actions

    def weight(self, pseudo_count: float | str) -> float:
        if isinstance(pseudo_count, str | bool) or pseudo_count is None:
            return 0.0
        return pseudo_count


def part_of(kind: str, given: object) -> Part:
    """Read a part as people write it.

    Args:
        kind: "model", "agent" or "batching".
        given: a name, a mapping with "name" and options, or an object.

    Returns:
        The part; objects are checked when it is built.

    Raises:
        ConfigError: nothing is registered under the name, or the mapping has none.
    """
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
    if kind == "agent":
        name, chosen = agent_named(given)
        return Part(name, chosen | options, said=given if given in SAMPLERS else None)
    short = {"batching": BATCHINGS, "model": MODELS}[kind]
    name, said = short.get(given, given), given if given in short else None
    if kind == "model":
        return Part(model_named(name), options, said=said)
    if name != EXTERNAL:
        batching_named(name)
    elif options:
        raise ConfigError(f"The batching {EXTERNAL!r} has no options.")
    return Part(name, options, said=said)


def with_prior_means(part: Part, width: int) -> Part:
    """A model by name that depends on a context, with a prior mean for each of `width` numbers: the stated one, or 0."""
    if part.name is None:
        return part
    given = part.options.get("prior_mean", 0.0)
    if not registry.find("model", part.name).about.get("contextual") or isinstance(given, list | tuple):
        return part
    return part._replace(options=part.options | {"prior_mean": [given] * width})


def with_one_theta(agent: Agent, features: Features) -> Agent:
    """The agent with one θ for all arms, whose rewards depend on `features` (`ConfigError` where it is no Thompson sampling)."""
    if type(agent) is not Thompson:
        raise ConfigError(f"shared=True is for Thompson sampling; {type(agent).__name__} has no θ to share.")
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:1], agent.model)
    return Thompson(first, agent.belief, agent.actions, shared=True, features=features)


def batching_named(name: str) -> registry.Entry:
    """The registered scheme of a name, or of one of `BATCHINGS` (`UnknownName` where there is none)."""
    try:
        return registry.find("batching", BATCHINGS.get(name, name))
    except UnknownName:
        raise UnknownName("batching", name, {*BATCHINGS, *registry.entries("batching"), EXTERNAL}) from None


def model_named(name: str) -> str:
    """The registered name of a model.

    Args:
        name: the same, or one of `MODELS`.

    Returns:
        The registered name.

    Raises:
        UnknownName: there is none.
    """
    try:
        return registry.find("model", MODELS.get(name, name)).name
    except UnknownName:
        raise UnknownName("model", name, {*MODELS, *registry.entries("model")}) from None


def check_spread(part: Part) -> None:
    """Refuse a model by name that takes the spread of rewards as known and is not told it (`ConfigError`).

    With its default of 1, rewards of another spread would be judged with the wrong certainty. Experiments that were stored with it
    are not checked, and go on.
    """
    if part.name is None:
        return
    built = single_model(part)
    for name, (number, other) in KNOWN_SPREAD.items():
        entry = registry.find("model", name)
        if not isinstance(built, entry.builder):  # type: ignore[arg-type]
            continue
        unsaid = number not in part.options and np.array_equal(getattr(built, number), entry.options()[number])
        if unsaid and not isinstance(_imported(part), models.Model):
            raise ConfigError(f"{part.name} needs the {number} of the rewards: give {number}=…, or take {other}, which learns it.")


def _imported(part: Part) -> object:
    """What an import path names; None for other names."""
    name = part.name or ""
    return plugins.imported("model", name, models.Model) if ":" in name else None


def agent_named(name: str) -> tuple[str, dict[str, Any]]:
    """The agent that the name of a sampler stands for.

    Args:
        name: of an agent, a short name in `SAMPLERS`, or of a registered sampler, which stands for Thompson sampling with it.

    Returns:
        The agent's name, and the options that the name stands for.

    Raises:
        UnknownName: there is none.
    """
    name = SAMPLERS.get(name, name)
    if ":" in name:  # what it names says which it is
        with contextlib.suppress(ConfigError):
            return "thompson", {"sampler": registry.find("sampler", name).name}
        return registry.find("agent", name).name, {}
    with contextlib.suppress(UnknownName):
        return registry.find("agent", name).name, {}
    with contextlib.suppress(UnknownName):
        return "thompson", {"sampler": registry.find("sampler", name).name}
    raise UnknownName("agent or sampler", name, {*SAMPLERS, *registry.entries("agent"), *registry.entries("sampler")})


def to_data(kind: str, part: Part) -> dict[str, Any]:
    """A part as JSON can hold it; of an object made of functions, and of a model in a module of the user's, also how it looks."""
    if part.name is not None:
        data = {"name": part.name, "options": part.options} | ({} if part.said is None else {SAID: part.said})
        return data | {"built": repr(single_model(part))} if kind == "model" and part.is_own else data
    try:
        return {"object": to_json(part.value)}
    except BltsError:
        return {"given": repr(part.value)}


def from_data(kind: str, data: dict[str, Any], given: object) -> Part:
    """The part that `to_data` wrote; `given` is the object where JSON could not hold it (`ConfigError` where it is another)."""
    if "name" in data:
        part = Part(data["name"], data["options"], said=data.get(SAID))
        if "built" in data and (now := repr(single_model(part))) != data["built"]:
            raise ConfigError(f"The {kind} {part.words} of this experiment was {data['built']}, and is {now} now; put it back.")
        return part
    if "object" in data:
        return Part(None, {}, from_json(data["object"]))
    if given is None:
        raise ConfigError(
            f"The {kind} of this experiment is made of functions, which no database holds; "
            f"open it in Python, with Experiment.open(url, name, {kind}=…)."
        )
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


def single_model(part: Part) -> Model:
    """The model as it was given: of one arm, or with numbers for each of the first arms."""
    model = part.value if part.name is None else _built("model", part)
    models.require_model("An experiment", model)
    return model


def model_of(part: Part, arms: Sequence[Arm], numbers: Mapping[str, float]) -> Model:
    """The model of all arms there have been, stacked; `numbers` are those of its prior, where the part's own are not meant."""
    model = with_numbers(single_model(part), numbers)
    if any(not isinstance(leaf, int | float | np.generic | np.ndarray | jax.Array) for leaf in jax.tree.leaves(model)):
        raise ConfigError(f"{type(model).__name__} is no tree of numbers; register its class with JAX, or use from_functions.")
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


def _own_numbers(model: Model) -> set[str]:
    """The numbers of a model that are given for each arm."""
    return {n.name for n in models.numbers_of(model) if jnp.ndim(n.value) > n.ndim}


def _with_options(single: Model, arm: Arm, own: Set[str] = frozenset()) -> Model:
    lacking = own - set(arm.options)
    if lacking:
        names = " and ".join(sorted(lacking))
        raise ConfigError(f"The model has a {names} for each arm; give {names} for the arm {arm.label!r} too.")
    known = {n.name for n in models.numbers_of(single)}
    for name in arm.options:
        if name not in known:
            raise ConfigError(f"The model has no number {name!r}; its numbers: {', '.join(sorted(known))}.")
    return dataclasses.replace(single, **arm.options)


def restricted(model: Model, active: tuple[int, ...]) -> Model:
    """The stacked model of some arms; the same object where all are active."""
    leaves = jax.tree.leaves(model)
    if leaves and active == tuple(range(leaves[0].shape[0])):
        return model
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.asarray(active)], model)


def agent_of(part: Part, setting: ArmSetting) -> Agent:
    """The agent that decides between the arms of a setting."""
    agent = _agent_of(part, setting)
    if agent.privacy is not None:
        raise ConfigError(
            "Private agents are for simulations, and would be shown every reward again at every refresh; take the sampler exact, "
            'and the setting privacy={"rho": …, "low": …, "high": …} of the experiment.'
        )
    return agent


def _agent_of(part: Part, setting: ArmSetting) -> Agent:
    if part.name is not None:
        entry = registry.find("agent", part.name)
        if "bandit" not in entry.about.get("worlds", ("bandit",)):
            raise ConfigError(f"The agent {part.name!r} is for MDPs and cannot run an experiment; use blts, exact-ts or ucb1.")
        return _built("agent", part, setting)
    value: Any = part.value
    if isinstance(value, Chain):
        value = Perturb(value)
    if isinstance(value, Belief):
        return Thompson(setting.model, value, setting.actions)
    if isinstance(value, Agent) and value.model is None and "actions" in value.__dataclass_fields__:  # type: ignore[attr-defined]
        return value if value.actions == setting.actions else dataclasses.replace(value, actions=setting.actions)
    raise ConfigError(
        f"A sampler is a name, a belief such as Exact() or Perturb(sgld()), or an agent without a model; got {value!r}."
    )


def batching_of(part: Part, setting: ArmSetting) -> Batching:
    """The scheme that closes batches."""
    if part.name == EXTERNAL:
        return Never()
    if part.name is not None:
        return _built("batching", part, setting)
    require_part("The batching", part.value, Batching, "DoublingCounts(), or a name")
    return part.value
