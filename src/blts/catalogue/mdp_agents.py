"""Named agents for MDPs: posterior sampling, UCRL2 and the optimal policy."""

from __future__ import annotations

from .. import agents, samplers
from ..errors import ConfigError
from ..models import Tabular
from ..registry import register
from .setting import Setting

TABLE, ANY_MDP, THETA = ("table",), ("table", "parametric"), ("parametric",)


def _rows(on: Setting, sampler: samplers.rows.RowSampler) -> agents.PSRL:
    return agents.PSRL(on.model, agents.Rows(sampler))


@register("agent", "mld-psrl", worlds=TABLE, batching="static")
def mld_psrl(on: Setting, adjusted=True, steps=None):
    """LPSRL with Langevin rows (Algorithms 3 and 4): log-gamma chains, or with adjusted=false the printed mirrored Langevin."""
    if adjusted:
        return _rows(on, samplers.LogGammaRows(steps))
    return _rows(on, samplers.MirroredRows() if steps is None else samplers.MirroredRows(steps=steps))


@register("agent", "sgld-psrl", worlds=ANY_MDP, batching="static")
def sgld_psrl(on: Setting, step_size=None, steps=None, minibatch=32, control_variate=False):
    """LPSRL with SGLD (Algorithm 3): on θ of a parametric world (50 steps of 0.1), or on the softmax parameters of every row."""
    if isinstance(on.model, Tabular):
        if control_variate:
            raise ConfigError("control_variate is for worlds with a parameter vector; the counts of a row need none.")
        given = {"step": step_size, "steps": steps}
        return _rows(on, samplers.MirroredRows(**{k: v for k, v in given.items() if v is not None}, minibatch=minibatch))
    chain = samplers.sgld(
        0.1 if step_size is None else step_size, 50 if steps is None else steps, minibatch, control_variate=control_variate
    )
    return agents.PSRL(on.model, agents.Parameters(chain))


@register("agent", "mala-psrl", worlds=THETA, batching="static")
def mala_psrl(on: Setting, step_size=0.5, steps=50):
    """Posterior sampling with Metropolis-adjusted Langevin on all transitions of a parametric world."""
    return agents.PSRL(on.model, agents.Parameters(samplers.mala(step_size, steps)))


@register("agent", "ds-psrl", worlds=TABLE, batching="static")
def ds_psrl(on: Setting):
    """Exact posterior sampling with static doubling (Theocharous et al. 2017)."""
    return _rows(on, samplers.ExactRows())


@register("agent", "db-psrl", worlds=TABLE, batching="doubled-since-switch")
def db_psrl(on: Setting):
    """Exact posterior sampling with dynamic doubling of pair visits."""
    return _rows(on, samplers.ExactRows())


@register("agent", "tsde", worlds=TABLE, batching="tsde")
def tsde(on: Setting):
    """Exact posterior sampling with TSDE's switches (Ouyang et al. 2017)."""
    return _rows(on, samplers.ExactRows())


@register("agent", "psrl", worlds=TABLE, batching="fixed")
def psrl(on: Setting):
    """Exact posterior sampling with fixed episodes (Osband et al. 2013)."""
    return _rows(on, samplers.ExactRows())


@register("agent", "continuing-psrl", worlds=TABLE, batching="geometric")
def continuing_psrl(on: Setting):
    """Exact posterior sampling, drawing anew after a geometric number of rounds (Xu et al. 2022)."""
    return _rows(on, samplers.ExactRows())


@register("agent", "ucrl2", worlds=TABLE, batching="ucrl2")
def ucrl2(on: Setting, delta=0.05, scale=1.0):
    """UCRL2: plan in the most hopeful model of a confidence set (Jaksch et al. 2010)."""
    return agents.UCRL2(on.model, delta, scale)


@register("agent", "optimal", worlds=ANY_MDP, batching="static", prior=False)
def optimal(on: Setting):
    """The optimal policy, which knows the world."""
    return agents.Follow.knowing(on.model, on.env)
