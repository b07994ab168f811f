"""Guarantees that overriding removes: what is lost, and by which override."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from blts.agents import Exact, Thompson
from blts.declared import fact, rests_on, why_lost
from blts.errors import ConfigError, Lost
from blts.models import Bernoulli, Gaussian, GaussianUnknownVariance, Poisson


def test_what_is_lost_says_by_which_override():
    class Base:
        def a(self):
            return 1

        @rests_on("a")
        def b(self):
            return 2

        sure = fact("a")

    class Changed(Base):
        def a(self):
            return 3

    class Both(Changed):
        def b(self):
            return super().b() + 10

    assert (Base().b(), Base().sure, why_lost(Base(), "b")) == (2, True, None)
    assert not hasattr(Changed(), "b")
    assert not Changed().sure
    with pytest.raises(Lost, match=r"Changed overrides a, on which Base\.b rests; override b too"):
        Changed().b()
    assert Both().b() == 12


@pytest.mark.parametrize("model", [Gaussian, Bernoulli, Poisson, GaussianUnknownVariance])
def test_exact_draws_are_lost_with_the_likelihood_of_a_summary(model):
    """Chains draw from what it says, and exact draws would not."""

    class Half(model):
        def log_likelihood_of(self, theta, summary):
            return 0.5 * super().log_likelihood_of(theta, summary)

    assert model().has_posterior
    assert not Half().has_posterior
    assert not Half().has_marginal
    with pytest.raises(ConfigError, match=r"Half overrides log_likelihood_of, on which \w+\.draw rests"):
        Thompson(Half(), Exact(), 2)


def test_what_was_written_for_one_method_is_lost_with_the_next():
    """A wrapper in between, or a mixin in front, does not hide that the likelihood was changed below it."""

    class Logged(Gaussian):
        def draw(self, key, summary):
            return super().draw(key, summary)

        def log_likelihood_of(self, theta, summary):
            return super().log_likelihood_of(theta, summary)

    class Mixin:
        def draw(self, key, summary):
            return super().draw(key, summary)

    body = {"log_likelihood": lambda self, theta, row: -0.5 * (2 * row.reward - theta[0]) ** 2}
    body |= {"mean_reward": lambda self, theta, obs, action: theta[0] / 2, "information": lambda self, theta: jnp.ones(1)}
    assert Logged().has_posterior
    assert type("Mixed", (Mixin, Gaussian), {})().has_posterior
    for half in (type("Half", (Logged,), body), type("Half", (Mixin, Gaussian), body)):
        assert not half().has_posterior
        with pytest.raises(ConfigError, match="overrides log_likelihood"):
            Thompson(half(prior_mean=[0.0, 1.0]), Exact())
        assert not isinstance(Thompson(half(prior_mean=[0.0, 1.0])).belief, Exact)

    class Restated(Exact):
        plain_memory = True

    class Forgetful(Restated):
        def remember(self, model, history, row, live):
            return history

    assert Restated().plain_memory
    assert not Forgetful().plain_memory
