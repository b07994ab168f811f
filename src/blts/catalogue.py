"""The table of methods as code: every name is a composition of a model, a sampler, a batching scheme and a rule."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import agents, batching, problems, samplers
from .errors import ConfigError
from .registry import register

# Agents. A builder is given the model, the number of actions and the horizon.


def _belief(chain: samplers.Chain, gamma: float | str, pool: int) -> Any:
    return agents.Pool(chain, pool) if pool else agents.Perturb(chain, gamma)


@register("agent", "blts")
def blts(model, actions, horizon, step_size=0.1, steps=50, minibatch=32, gamma=1.0, pool=0, control_variate=False):
    """Langevin Thompson sampling with SGLD (Algorithms 1 and 2); with dynamic batching this is BLTS."""
    chain = samplers.sgld(step_size, steps, minibatch, control_variate=control_variate)
    return agents.Thompson(model, _belief(chain, gamma, pool), actions)


@register("agent", "exact-ts")
def exact_ts(model, actions, horizon):
    """Thompson sampling with exact posterior draws, for conjugate models."""
    return agents.Thompson(model, agents.Exact(), actions)


@register("agent", "ula-ts")
def ula_ts(model, actions, horizon, step_size=0.1, steps=50, gamma=1.0, pool=0):
    """Thompson sampling with the unadjusted Langevin algorithm on all data."""
    return agents.Thompson(model, _belief(samplers.ula(step_size, steps), gamma, pool), actions)


@register("agent", "mala-ts")
def mala_ts(model, actions, horizon, step_size=0.5, steps=20, gamma=1.0, pool=64):
    """Thompson sampling with a pool of Metropolis-adjusted Langevin chains on all data."""
    return agents.Thompson(model, _belief(samplers.mala(step_size, steps), gamma, pool), actions)


@register("agent", "ucb1")
def ucb1(model, actions, horizon, scale=1.0):
    """UCB1: bonus on plays, mean on observed rewards."""
    return agents.UCB1(actions, scale)


@register("agent", "bayes-ucb")
def bayes_ucb(model, actions, horizon, c=0.0, count="plays"):
    """Bayes-UCB: the posterior quantile 1 - 1/(t (log T)^c), for models with a closed law of the mean reward."""
    return agents.BayesUCB(model, horizon, c, count, actions)


@register("agent", "eps-greedy")
def eps_greedy(model, actions, horizon, c=1.0):
    """Decaying ε-greedy: ε = min(1, c·N/t)."""
    return agents.EpsilonGreedy(actions, c)


@register("agent", "base")
def base(model, actions, horizon, width=2.0):
    """Batched successive elimination (BaSE, Gao et al. 2019)."""
    return agents.SuccessiveElimination(actions, horizon, width)


@register("agent", "uniform")
def uniform(model, actions, horizon):
    """Every arm with the same probability."""
    return agents.Uniform(actions)


# Batching schemes. A builder is given the horizon.


@register("batching", "sequential")
def sequential(horizon):
    """Rewards are seen after every round."""
    return batching.Sequential()


@register("batching", "fixed")
def fixed(horizon, size=10):
    """Rewards are seen every `size` rounds."""
    return batching.Fixed(size)


@register("batching", "static")
def static(horizon):
    """Batches of 1, 2, 4, … rounds."""
    return batching.StaticDoubling()


@register("batching", "dynamic")
def dynamic(horizon):
    """A batch closes when an arm's plays reach the next power of two (Algorithm 2)."""
    return batching.DoublingCounts()


@register("batching", "doubled-since-switch")
def doubled_since_switch(horizon):
    """A batch closes when an arm's plays exceed twice what they were when it began (TSDE's reading)."""
    return batching.DoubledSinceSwitch()


@register("batching", "minimax-grid")
def minimax_grid(horizon, batches=5):
    """The minimax grid of Gao et al. (2019) with `batches` batches."""
    return batching.Grid.minimax(horizon, batches)


@register("batching", "geometric-grid")
def geometric_grid(horizon, batches=5):
    """The geometric grid of Gao et al. (2019) with `batches` batches."""
    return batching.Grid.geometric(horizon, batches)


# Published methods: the bandit rows of the paper's comparison table.


class Method(NamedTuple):
    agent: str
    batching: str
    regret: str
    """Order of the regret, as the paper's Table 1 states it."""
    batches: str


@register("method", "karbasi-2021")
def karbasi_2021() -> Method:
    """Karbasi et al. 2021: exact Thompson sampling with dynamic batches."""
    return Method("exact-ts", "dynamic", "O(log T)", "O(log T)")


@register("method", "mazumdar-2020-sgld")
def mazumdar_2020_sgld() -> Method:
    """Mazumdar et al. 2020: SGLD Thompson sampling, one round a batch."""
    return Method("blts", "sequential", "O(log T)", "O(T)")


@register("method", "mazumdar-2020-ula")
def mazumdar_2020_ula() -> Method:
    """Mazumdar et al. 2020: ULA Thompson sampling, one round a batch."""
    return Method("ula-ts", "sequential", "O(log T)", "O(T)")


@register("method", "blts-2023")
def blts_2023() -> Method:
    """The paper's Algorithm 2: SGLD Thompson sampling with dynamic batches."""
    return Method("blts", "dynamic", "O(log T)", "O(log T)")


class Condition(NamedTuple):
    """Everything `simulate` needs, built from names."""

    env: Any
    agent: Any
    batching: Any
    horizon: int


def condition(
    env: str,
    agent: str,
    batching: str,
    prior: str = "informative",
    horizon: int | None = None,
    *,
    drawn: bool = False,
    batch_size: int | None = None,
    options: dict[str, Any] | None = None,
) -> Condition:
    """Names become objects here, with every name checked before anything is built.

    >>> from blts.catalogue import condition
    >>> condition("gaussian", "ucb1", "dynamic", horizon=100).agent
    UCB1(actions=15, scale=1)
    """
    from . import registry

    entries = [registry.find(kind, name) for kind, name in (("environment", env), ("agent", agent), ("batching", batching))]
    problem: problems.Problem = entries[0].build()
    model = problem.model(prior)
    if drawn:
        problem = problem.drawn(prior)
    T = problem.horizon if horizon is None else horizon
    if T < 1:
        raise ConfigError(f"horizon must be a whole number ≥ 1; got {T}.")
    if batch_size is not None and batching != "fixed":
        raise ConfigError(f'A batch size goes with the batching "fixed", not with {batching!r}; leave one of them out.')
    sizes = {} if batch_size is None else {"size": batch_size}
    return Condition(
        problem.env,
        registry.build("agent", agent, model, problem.env.actions, T, **(options or {})),
        registry.build("batching", batching, T, **sizes),
        T,
    )
