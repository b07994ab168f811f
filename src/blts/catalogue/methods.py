"""Published methods: the rows of the paper's comparison table, each a composition of named parts."""

from __future__ import annotations

from typing import NamedTuple

from ..registry import register


class Method(NamedTuple):
    """A published method: its parts by name, and the orders that the paper states for it."""

    agent: str
    batching: str
    regret: str
    """Order of the regret, as in the paper's Table 1."""
    batches: str
    """Order of the number of batches."""


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


@register("method", "osband-2013")
def osband_2013() -> Method:
    """Osband et al. 2013: exact posterior sampling with fixed episodes."""
    return Method("psrl", "fixed", "O(√T)", "O(T/H)")


@register("method", "ouyang-2017")
def ouyang_2017() -> Method:
    """Ouyang et al. 2017 (TSDE): exact posterior sampling, visits doubled or batches growing by one."""
    return Method("tsde", "tsde", "O(√T)", "O(√T)")


@register("method", "theocharous-2017")
def theocharous_2017() -> Method:
    """Theocharous et al. 2017 (DS-PSRL): exact posterior sampling with static doubling."""
    return Method("ds-psrl", "static", "O(√T)", "O(log T)")


@register("method", "lpsrl-2023-sgld")
def lpsrl_2023_sgld() -> Method:
    """The paper's Algorithm 3 with SGLD: static doubling, θ ∈ R^d."""
    return Method("sgld-psrl", "static", "O(√T)", "O(log T)")


@register("method", "lpsrl-2023-mld")
def lpsrl_2023_mld() -> Method:
    """The paper's Algorithm 3 with mirrored Langevin: static doubling, tabular."""
    return Method("mld-psrl", "static", "O(√T)", "O(log T)")
