"""`posterior`: draw from the posterior of one arm without running a bandit, and check the draws."""

from __future__ import annotations

import dataclasses
import functools
import html
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from . import _random, diagnosis, freshness, registry
from ._module import require_part, short
from ._typing import Info, Row
from .agents.beliefs import Belief, Pool, default_belief
from .errors import FRAMES, ConfigError, needs, whole
from .grid import grid
from .models.arms import arm_count, stack
from .models.base import Model, require_model
from .models.custom import described
from .models.numpyro import NumPyro
from .models.proper import check_prior
from .models.returned import check_returns
from .models.support import SUPPORTS, support_of_likelihood
from .samplers import Chain, Sampler

if TYPE_CHECKING:
    from xarray import Dataset

SURE = 2.225
"""√(-½ log(p/2)) for p = 10⁻⁴: the Kolmogorov distance of N independent draws exceeds SURE/√N with probability at most p."""


class CheckedQuantity(NamedTuple):
    """The draws of one quantity compared with its exact posterior."""

    name: str
    kolmogorov: float
    """The largest difference of the two distribution functions."""
    mean_error: float
    """Mean of the draws less the exact one, in exact sds."""
    sd_error: float
    """Sd of the draws over the exact one, less 1."""


class Check(NamedTuple):
    """The result of `Posterior.check`. Printed, it is a sentence for each quantity and a verdict."""

    comparisons: tuple[CheckedQuantity, ...]
    allowed: float
    """The Kolmogorov distance that as many exact draws exceed with probability 10⁻⁴ at most."""
    quadrature_error: float
    """The error of the grid itself, in posterior sds."""

    @property
    def ok(self) -> bool:
        """Whether the draws cannot be distinguished from exact ones."""
        return all(c.kolmogorov <= self.allowed for c in self.comparisons)

    def __str__(self) -> str:
        lines = [
            f"{c.name}: Kolmogorov distance {c.kolmogorov:.3f}, mean off by {_signed(c.mean_error, 2)} posterior sds, sd by "
            f"{_signed(100 * c.sd_error, 0)} %."
            for c in self.comparisons
        ]
        verdict = (
            f"These draws cannot be distinguished from exact ones (distances up to {self.allowed:.3f} are chance)."
            if self.ok
            else f"WARNING: these are not draws from the posterior: exact draws stay below {self.allowed:.3f}. Use smaller or "
            "more steps, or the default sampler."
        )
        return "\n".join([*lines, verdict])

    __repr__ = __str__


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Posterior:
    """Draws from a posterior, with diagnostics: the result of `posterior`.

    Args:
        model: the model of the arm.
        belief: the belief that made the draws.
        rows: the rewards, with their contexts.
        draws: θ, `[draws, dim]`.
        mean_reward: the mean reward of each draw, over the contexts where there are any, `[draws]`.
        diagnostics: diagnostics of the chains; NaN where one does not apply.
        chosen: whether the sampler was chosen, and is not the default.

    >>> import blts
    >>> found = blts.posterior(blts.Bernoulli(), [1, 0, 0, 1, 0, 0])
    >>> found.draws.shape, found.warnings, round(float(found.mean_reward.mean()), 1)
    ((1000, 1), [], 0.4)
    """

    model: Model
    belief: Belief
    rows: Row
    draws: np.ndarray
    mean_reward: np.ndarray
    diagnostics: Info
    chosen: bool = False
    """Whether the sampler was chosen, and is not the default: then `warnings` has the result of `check`, where there is one."""

    @property
    def warnings(self) -> list[str]:
        """Reasons not to trust the draws, one sentence each; empty if there are none."""
        d = self.diagnostics
        found = diagnosis.warnings(1, int(not bool(d.sound)), bool(d.finite), float(d.rhat), float(d.stuck), float(d.least))
        return found or ([] if self._missed is None else [self._missed])

    @functools.cached_property
    def _missed(self) -> str | None:
        """Where draws of a chosen sampler are not from the posterior by quadrature, a sentence: chains that start far away and are
        all on their way look alike, so that they do not notice it themselves."""
        if not self.chosen or self.model.dim > 2:
            return None
        try:
            check = self.check()
        except ConfigError:  # a grid that does not resolve the posterior
            return None
        if check.ok:
            return None
        c = max(check.comparisons, key=lambda c: c.kolmogorov)
        mean, sd = _signed(c.mean_error, 2), _signed(100 * c.sd_error, 0)
        return (
            f"the draws are not from the posterior: by quadrature, {c.name} has its mean off by {mean} posterior sds and "
            f"its sd by {sd} %. Take more or smaller steps, or leave the sampler out to use the default."
        )

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The draws by parameter, each `[draws, …]`: those of a NumPyro model as its likelihood takes them, of other models θ."""
        if not isinstance(self.model, NumPyro):
            return {"θ": self.draws}
        return {name: np.asarray(value) for name, value in self.model.constrained(self.draws).items()}

    def check(self) -> Check:
        """Compare the draws with quadrature, for models with one or two parameters. Draws are treated as independent.

        Returns:
            The Kolmogorov distance and the errors of mean and sd, for each coordinate of θ and for the mean reward; `ok` is true
            where all distances are within chance.

        Raises:
            ConfigError: the model has more parameters, or the grid does not resolve the posterior.
        """
        exact = grid(self.model, self.rows, self.draws[:16])
        if exact.error > 0.01:
            raise ConfigError(
                f"The grid does not resolve this posterior (it is off by {exact.error:.2g} posterior sds); compare the draws of "
                "two samplers instead."
            )
        of_grid = {f"θ[{i}]" if self.model.dim > 1 else "θ": exact.points[:, i] for i in range(self.model.dim)}
        drawn = dict(zip(of_grid, self.draws.T.astype(float), strict=True))
        with jax.enable_x64(True):
            of_grid["mean reward"] = np.asarray(_mean_rewards(self.model, self.rows, jnp.asarray(exact.points)))
        drawn["mean reward"] = self.mean_reward.astype(float)
        found = tuple(_compared(name, exact, of_grid[name], drawn[name]) for name in of_grid)
        return Check(found, SURE / len(self.draws) ** 0.5, exact.error)

    def to_xarray(self) -> Dataset:
        """The draws as a labelled data set of xarray with the dimensions `chain` and `draw`, which ArviZ takes as it is.

        Each draw of a pool, or around the end of a chain, is from a chain of its own, so there are as many chains as draws; exact
        draws are one chain. ArviZ compares chains by several draws of each, so its R-hat and effective sample size are NaN for a
        pool. What the chains reported of themselves, in `diagnostics`, is in the attributes.

        Returns:
            A `Dataset` with `chain` and `draw` in front: a variable for each of `parameters`, and `mean_reward`. Its attributes are
            `model`, `belief`, `rewards` (how many), `warnings`, and `r_hat`, `ess`, `acceptance` and `stuck` where they apply.

        Raises:
            ConfigError: xarray is not installed.

        >>> import blts
        >>> found = blts.posterior(blts.Laplace(prior_sd=10.0), [1.2, 0.7, 1.9, 1.4]).to_xarray()
        >>> dict(found.sizes), sorted(found)
        ({'chain': 1000, 'draw': 1, 'θ_dim': 1}, ['mean_reward', 'θ'])
        >>> found.attrs["r_hat"] < 1.2  # arviz.summary(found) has the means, sds and intervals
        True
        """
        xarray: Any = needs("xarray", "A labelled data set", FRAMES)
        chains = 1 if np.isnan(self.diagnostics.acceptance) else len(self.draws)
        fields = {}
        for name, values in (self.parameters | {"mean_reward": self.mean_reward}).items():
            inner = [f"{name}_dim" if values.ndim == 2 else f"{name}_dim_{i}" for i in range(values.ndim - 1)]
            fields[name] = (("chain", "draw", *inner), values.reshape(chains, -1, *values.shape[1:]))
        d = self.diagnostics
        numbers = {"r_hat": d.rhat, "ess": d.ess, "acceptance": d.acceptance, "stuck": d.stuck}
        about = {"model": type(self.model).__name__, "belief": str(self.belief), "rewards": len(self.rows.reward)}
        found = {name: float(value) for name, value in numbers.items() if not np.isnan(value)} | {
            "warnings": " ".join(self.warnings)
        }
        coordinates = {"chain": np.arange(chains), "draw": np.arange(len(self.draws) // chains)}
        return xarray.Dataset(fields, coordinates, about | found)

    def __repr__(self) -> str:
        n = len(self.rows.reward)
        named = (f"{name} has mean {short(x.mean(0))} and sd {short(x.std(0))}, " for name, x in self.parameters.items())
        lines = [
            f"Posterior of {described(self.model)} given {n} reward{'s' if n != 1 else ''}, by {self.belief}: "
            f"{len(self.draws)} draws.",
            f"{''.join(named)}the mean reward {self.mean_reward.mean():.4g} and {self.mean_reward.std():.4g}.",
        ]
        d = self.diagnostics
        chains = diagnosis.describe(*(float(x) for x in (d.acceptance, d.least, d.rhat, d.stuck, d.ess)))
        return "\n".join([*lines, *([chains] if chains else []), *(f"WARNING: {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in repr(self).splitlines())


def posterior(
    model: Model,
    rewards: ArrayLike,
    sampler: str | Chain | Belief | None = None,
    *,
    contexts: ArrayLike | None = None,
    arm: int | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Posterior:
    """Draw from the posterior of one arm, without running a bandit.

    Args:
        model: a model of one arm, or of several.
        rewards: the rewards of the arm, at least one.
        sampler: a chain such as `mala()`, the name of one, or a belief such as `Exact()`. By default exact draws where the model
            is conjugate, and adjusted chains around the modes elsewhere. Each draw is the end of its own chain.
        contexts: the context of each reward, for models that need one, `[rewards, …]`.
        arm: which arm, from 0, where the model describes several.
        draws: how many.
        seed: the same seed gives the same draws.

    Returns:
        The draws, the mean reward of each, and diagnostics; its `check()` compares the draws with quadrature.

    Raises:
        ConfigError: an argument is invalid, or the model cannot give these rewards.

    >>> import blts
    >>> found = blts.posterior(blts.Gaussian(prior_mean=0.0, prior_sd=10.0, sd=1.0), [1.2, 0.7, 1.9, 1.4])
    >>> found.draws.shape, found.check().ok
    ((1000, 1), True)
    """
    single, stacked = _one_arm(model, arm)
    whole("posterior: draws", draws, 2)
    belief = _belief(sampler, stacked, draws)
    freshness.look_again(single, belief)
    check_prior(stacked)
    rows = _rows(single, rewards, contexts)
    key_init, key_refresh, key_draw = _random.split(_random.as_key(seed), 3)
    many = not isinstance(belief, Pool) and not belief.incremental(stacked)
    count = draws if many else 1  # refreshes: one chain gives one draw
    states, info = _learned(belief, stacked, rows, _random.split(key_init, count), _random.split(key_refresh, count))
    if isinstance(belief, Pool) and belief.draws_members:
        theta = belief.members(jax.tree.map(lambda x: x[0], states))[0]
    else:
        theta = _drawn(belief, stacked, _random.split(key_draw, draws), states)
    mean_reward = np.asarray(_mean_rewards(single, rows, theta))
    return Posterior(single, belief, rows, np.asarray(theta), mean_reward, _together(info), chosen=sampler is not None)


@jax.jit
def _learned(belief: Any, model: Any, rows: Row, keys_init: Any, keys: Any) -> tuple[Any, Info]:
    """The belief's states after one refresh on all rows, for each key."""
    row, n = jax.tree.map(lambda x: x[0], rows), len(rows.reward)
    add = lambda history, row: (belief.remember(model, history, row, jnp.asarray(True)), None)  # noqa: E731
    history, _ = jax.lax.scan(add, belief.empty(model, row, n), jax.tree.map(jnp.asarray, rows))
    repeat = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *jnp.shape(x))), tree)  # noqa: E731
    start = jax.vmap(lambda key: belief.init(key, model))(keys_init)
    return belief.refresh(keys, model, start, repeat(history))


@jax.jit
def _drawn(belief: Any, model: Any, keys: Any, states: Any) -> Any:
    """A draw for each key, from a state of its own or from the only one."""
    each = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape[1:])), states)
    return jax.vmap(lambda key, state: belief.draw(key, model, state)[0])(keys, each)


@jax.jit
def _mean_rewards(single: Any, rows: Row, theta: Any) -> Any:
    """The mean reward at each θ, over the contexts of the rows."""
    if isinstance(rows.obs, tuple):
        return jax.vmap(lambda x: single.mean_reward(x, (), jnp.asarray(0)))(theta)
    over = lambda x: jnp.mean(jax.vmap(lambda obs: single.mean_reward(x, obs, jnp.asarray(0)))(jnp.asarray(rows.obs)))  # noqa: E731
    return jax.lax.map(over, jnp.asarray(theta), batch_size=64)


def _together(info: Info) -> Info:
    """The diagnostics of all refreshes as one: the worst of each, and the mean acceptance."""
    worst = {"finite": np.all, "acceptance": np.mean, "ess": np.min, "least": np.min}
    return Info(**{name: worst.get(name, np.max)(np.asarray(x)) for name, x in info._asdict().items()})


def _one_arm(model: Any, index: int | None) -> tuple[Any, Any]:
    """The model of the arm by itself, and stacked as the only one."""
    require_model("posterior", model)
    arms = arm_count(model)
    if arms is None and index is not None:
        raise ConfigError(f"posterior: the model describes one arm; leave out arm={index!r}.")
    if arms is not None and arms > 1 and index is None:
        raise ConfigError(f"posterior: the model describes {arms} arms; say which one with arm=0 … arm={arms - 1}.")
    if arms is None:
        return model, stack(model, 1)
    index = whole("posterior: arm", 0 if index is None else index, 0, arms - 1)
    stacked = jax.tree.map(lambda x: np.asarray(x)[index : index + 1], stack(model, arms))
    return jax.tree.map(lambda x: x[0], stacked), stacked


def _rows(single: Any, rewards: Any, contexts: Any) -> Row:
    """The rewards as rows; an error if the model gives one no density."""
    try:
        given = np.asarray(rewards, float)
    except (TypeError, ValueError):
        raise ConfigError(f"posterior: rewards must be a list or array of numbers; got {rewards!r}.") from None
    if given.ndim != 1:
        raise ConfigError(f"posterior: rewards must be one list of numbers, those of one arm; their shape is {given.shape}.")
    if not given.size:
        raise ConfigError("posterior: there are no rewards; draws from the prior are model.init(key).")
    if not np.isfinite(given).all():
        at = int(np.flatnonzero(~np.isfinite(given))[0])
        raise ConfigError(f"posterior: rewards must be finite; number {at} (from 0) is {given[at]}.")
    obs: Any = _contexts(single, contexts, given.size)
    if single.contextual:
        check_returns("posterior", single, jnp.asarray(obs[0]))
    rows: Any = Row(obs, np.zeros(given.size, int), given)  # type: ignore[arg-type]
    holds, words = SUPPORTS[support_of_likelihood(single) or "real"]
    wrong = [x for x in given.tolist() if not holds(x)]
    if not wrong and support_of_likelihood(single) is None:
        theta = single.init(_random.as_key(0))
        density = jax.vmap(lambda row: single.log_likelihood(theta, row))(jax.tree.map(jnp.asarray, rows))
        wrong, words = given[~np.isfinite(np.asarray(density))].tolist(), "those that it gives a density"
    if wrong:
        raise ConfigError(f"posterior: the rewards of {type(single).__name__} are {words}; got {wrong[0]:.6g}.")
    return rows


def _contexts(single: Any, contexts: Any, n: int) -> Any:
    needed = single.contextual
    if needed != (contexts is not None):
        name = type(single).__name__
        raise ConfigError(
            f"posterior: {name} needs a context for each reward; give contexts=…."
            if needed
            else f"posterior: {name} takes no contexts; leave them out."
        )
    if contexts is None:
        return ()
    try:
        given = np.asarray(contexts, float)
    except (TypeError, ValueError):
        raise ConfigError("posterior: contexts must be an array of numbers, a row for each reward.") from None
    if given.ndim < 2 or len(given) != n or not np.isfinite(given).all():
        raise ConfigError(
            f"posterior: contexts must be {n} rows of finite numbers, one for each reward; their shape is {given.shape}."
        )
    return given


def _belief(sampler: Any, stacked: Any, draws: int) -> Any:
    belief: Any = registry.build("sampler", sampler) if isinstance(sampler, str) else sampler
    if belief is None:
        belief = default_belief(stacked, draws)
    if isinstance(belief, Chain | Sampler):
        belief = Pool(belief, draws)  # type: ignore[arg-type]  # refuses a kernel that is not in a chain
    require_part("posterior: sampler", belief, Belief, "mala(), Exact() or Perturb(sgld())")
    if isinstance(belief, Pool):
        belief = dataclasses.replace(belief, size=draws)
    return belief.check_model(stacked)


def _signed(x: float, places: int) -> str:
    """A number with its sign, and zero without one."""
    text = f"{x:+.{places}f}"
    return text[1:] if not text.strip("+-0.") else text


def _compared(name: str, exact: Any, values: np.ndarray, drawn: np.ndarray) -> CheckedQuantity:
    (mean, sd), x = exact.moments(values), np.sort(drawn)
    if not np.isfinite(x).all():
        return CheckedQuantity(name, 1.0, float("nan"), float("nan"))
    F, i = exact.cdf(values, x), np.arange(len(x))
    distance = max(np.max((i + 1) / len(x) - F), np.max(F - i / len(x)))
    return CheckedQuantity(name, float(distance), float((x.mean() - mean) / sd), float(x.std() / sd - 1))
