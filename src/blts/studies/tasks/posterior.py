"""How far the end of a chain is from the exact posterior, as data grow: what Theorem 1 bounds."""

from __future__ import annotations

import dataclasses
import inspect
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ... import _random, registry, theory
from ..._typing import Array, Float, Int, PRNGKey, Row
from ...errors import ConfigError, whole
from ...loop import LAST
from ...models import Gaussian
from ...models.moments import Moments
from ...samplers import Chain, mala, sgld, ula
from ...samplers.chain import BLOCK
from ..spec import Condition
from .base import About, Arrays
from .checks import above_zero, refuse_unknown

SAMPLERS = {"sgld": sgld, "ula": ula, "mala": mala}
SD = 0.5
PRIOR_SD = 0.375**-0.5
"""The paper's Gaussian bandit and its informative prior."""
CAPACITY = 2**17
"""Rewards that there is room for. n is traced, so all n up to here share one program; beyond, room is doubled."""
MOST = 2**24  # the minibatch's uniform numbers are on a grid of 2^-24
MOST_STEPS = 2**30
KEYS = ("n", "sampler", "step_size", "steps", "minibatch", "control_variate", "prior_sd")


@registry.register("task", "posterior")
class Posterior:
    """The end of a chain on n Gaussian rewards, in sds of the exact posterior: what Theorem 1 bounds.

    A replication is one chain of `sampler` ("sgld", "ula" or "mala") started at a draw of the exact posterior of the first
    half of the data, the warm start of Algorithm 1 when the data have doubled. All chains see the same rewards, the first n
    of one sequence. `step_size`, `steps` and `minibatch` are numbers or "theorem", by default the sampler's own. The prior is
    centred at the truth, so that log Q = 0.

    >>> from blts import registry
    >>> task = registry.build("task", "posterior")
    >>> condition = task.normal({"n": 64, "step_size": "theorem", "steps": "theorem", "minibatch": "theorem"})
    >>> arrays, about = task.run(condition, seed=0, first=0, replications=100)
    >>> arrays["z"].shape, about["iterations"], about["minibatch"], round(about["bound"], 1)
    ((100,), 1321, 32, 31.2)
    """

    metrics: ClassVar[tuple[str, ...]] = ("z",)

    def normal(self, condition: Condition) -> Condition:
        refuse_unknown("posterior", condition, KEYS)
        if "n" not in condition:
            raise ConfigError("A condition of the task 'posterior' needs 'n', the number of rewards, such as 1024.")
        sampler = condition.get("sampler", "sgld")
        if sampler not in tuple(SAMPLERS):
            raise ConfigError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}; got {sampler!r}.")
        usual = {name: p.default for name, p in inspect.signature(SAMPLERS[sampler]).parameters.items()}
        given = {"minibatch": None, "control_variate": False, "prior_sd": PRIOR_SD, **usual, **condition}
        if sampler != "sgld" and given["minibatch"] is not None:
            raise ConfigError(f"{sampler} takes all data at every step; leave minibatch out; got {given['minibatch']!r}.")
        if not isinstance(given["control_variate"], bool):
            raise ConfigError(f"control_variate must be true or false; got {given['control_variate']!r}.")
        if sampler != "sgld" and given["control_variate"]:
            raise ConfigError(f"control_variate corrects the minibatches of sgld; leave it out for {sampler}.")
        return {
            "n": whole("n", given["n"], 1, MOST),
            "sampler": sampler,
            "step_size": _or_theorem(above_zero, "step_size", given["step_size"]),
            "steps": _or_theorem(partial(whole, most=MOST_STEPS), "steps", given["steps"]),
            "minibatch": None if sampler != "sgld" else _or_theorem(whole, "minibatch", given["minibatch"]),
            "control_variate": given["control_variate"],
            "prior_sd": above_zero("prior_sd", given["prior_sd"]),
        }

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        n, root = condition["n"], _random.as_key(seed)
        model: Any = Gaussian(prior_sd=condition["prior_sd"], sd=SD)
        constants, chain = theory.constants_of(model), chain_of(condition).resolved(model)
        steps = int(theory.iterations(constants, jnp.asarray(n))) if chain.steps == "theorem" else condition["steps"]
        store = rewards(root, n)
        data = np.asarray(store.reward[:n], float)
        history = store if chain.needs_log(model) else moments(data)
        # The number of steps is traced beside the chain: conditions that differ in numbers alone share a program.
        chain = dataclasses.replace(chain, steps=1)
        few = isinstance(chain.minibatch, int) and n <= chain.minibatch
        arguments = few, chain, model, root, moments(data[: n // 2]), history, np.int32(n), np.int32(steps)
        # One width for every block: a chain's numbers, and what is compiled, depend on neither block nor company.
        blocks = [np.asarray(_ends(*arguments, np.uint32(first + b)), float) for b in range(0, replications, BLOCK)]
        mean, sd = exact(data, condition["prior_sd"])
        theorem_step = float(theory.step_size(constants, jnp.asarray(n))) / sd**2
        about = {
            "bound": float(theory.wasserstein_bound(constants, n)) / sd,
            "iterations": steps,
            "step": theorem_step if chain.scale == "theorem" else float(condition["step_size"]),
            "minibatch": n if chain.minibatch is None else int(chain.minibatch),
            "posterior_mean": mean,
            "posterior_sd": sd,
        }
        return {"z": (np.concatenate(blocks)[:replications] - mean) / sd}, about


def chain_of(condition: Condition) -> Chain:
    """The sampler's own preset; for the theorem's step, in units of that step."""
    minibatch = {"minibatch": condition["minibatch"], "control_variate": condition["control_variate"]}
    theorem = condition["step_size"] == "theorem"
    chain = SAMPLERS[condition["sampler"]](
        1.0 if theorem else condition["step_size"], condition["steps"], **(minibatch if condition["sampler"] == "sgld" else {})
    )
    return dataclasses.replace(chain, scale="theorem") if theorem else chain


@partial(jax.jit, static_argnames="capacity")
def _drawn(root: PRNGKey, capacity: int) -> Float[Array, " capacity"]:
    # The numbers of a key are those of a counter, so a longer sequence begins with a shorter one.
    return SD * _random.normal(_random.fold_in(root, LAST), (capacity,))


def rewards(root: PRNGKey, n: int) -> Row:
    """A store with at least n rewards N(0, SD²), the beginning of one sequence for each seed."""
    capacity = max(CAPACITY, 1 << (n - 1).bit_length())
    return Row((), jnp.zeros(capacity, int), _drawn(root, capacity))


def moments(data: np.ndarray) -> Moments:
    """The summary of these rewards, from sums in double precision."""
    mean = data.mean() if data.size else 0.0
    high = np.float32(mean)
    size = np.int32(data.size)
    return Moments(size, size, high, np.float32(np.sum((data - mean) ** 2)), np.float32(mean - high))  # type: ignore[arg-type]


def exact(data: np.ndarray, prior_sd: float) -> tuple[float, float]:
    """Mean and sd of the posterior, in double precision."""
    precision = 1 / prior_sd**2 + data.size / SD**2
    return float(data.sum() / SD**2 / precision), float(precision**-0.5)


@partial(jax.jit, static_argnums=0)
def _ends(
    few: bool, chain: Chain, model: Any, root: PRNGKey, half: Moments, history: Row | Moments, n: Int, steps: Int, first: Int
) -> Float[Array, " block"]:
    """The ends of BLOCK chains, numbered from `first`: `Chain.run` on one arm whose data are shared by all replications.

    What all lanes share is not mapped over, so that the control variate's O(n) anchor is found once.
    """
    store, data = (None, history) if isinstance(history, Moments) else (history, 0)
    capacity = 0 if store is None else store.reward.shape[0]
    lane = partial(dataclasses.replace(chain, steps=lambda n: steps).lane, store, capacity, n, few, False)
    precision, reference = model.prior_precision(), jnp.reshape(model.marginal(half, (), 0).mean, (1,))

    def end(r: Int) -> Float[Array, ""]:
        key_start, key_run = _random.split(_random.fold_in(root, r))
        words = _random.words_of(_random.fold_in(key_run, 0))  # as `Chain.run` makes them for its first arm
        return lane(words, model, precision, model.draw(key_start, half), reference, n, n, data)[0][0]

    return jax.vmap(end)(first + jnp.arange(BLOCK, dtype=jnp.uint32))


def wasserstein(z: np.ndarray) -> float:
    """W2 between the law of these numbers, each with the weight 1/R, and N(0, 1).

    W2² = mean z² + 1 - 2 Σ z_(i) (φ(q_(i-1)) - φ(q_i)), with q_i the normal quantile of i/R. R exact draws are about
    √(log log R / R) away: 0.03 for R = 2000.

    >>> import numpy as np
    >>> from blts.studies.tasks.posterior import wasserstein
    >>> round(wasserstein(np.zeros(4)), 6), round(wasserstein(np.full(4, 3.0)), 6)
    (1.0, 3.162278)
    """
    from scipy.special import ndtri

    z = np.sort(np.asarray(z, float))
    density = np.exp(-0.5 * ndtri(np.arange(z.size + 1) / z.size) ** 2) / np.sqrt(2 * np.pi)
    return float(np.sqrt(max(np.mean(z**2) + 1 - 2 * np.sum(z * (density[:-1] - density[1:])), 0.0)))


def _or_theorem(check: Any, name: str, value: Any) -> Any:
    if isinstance(value, str) and value != "theorem":
        raise ConfigError(f'{name} must be a number or "theorem"; got {value!r}.')
    return value if value == "theorem" else check(name, value)
