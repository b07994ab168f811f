"""The task that counts gradients by exact laws, and studies of data that need not be installed."""

from __future__ import annotations

import numpy as np
import pytest

from blts import paper, registry
from blts.errors import ConfigError
from blts.samplers import refreshing
from blts.studies.tasks.gradients import spectrum


def found(condition: dict, replications: int, first: int = 0, seed: int = 0) -> np.ndarray:
    task = registry.build("task", "gradients")
    return task.run(task.normal(condition), seed=seed, first=first, replications=replications)[0]["gradients"]


def test_a_normal_form_is_its_own_and_blocks_add_up():
    task, condition = registry.build("task", "gradients"), {"kernel": "ula", "condition_number": 10}
    normal = task.normal(condition)
    assert task.normal(normal) == normal
    whole = found(condition, 4)
    assert np.array_equal(whole, np.concatenate([found(condition, 3), found(condition, 1, first=3)]))
    assert not np.array_equal(whole, found(condition, 4, seed=1))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"kernel": "hmc"}, "kernel must be one of 'ula', 'ulmc', 'baoab'; got 'hmc'."),
        ({"kernel": "ula", "condition_number": 0.5}, "condition_number must be ≥ 1; got 0.5."),
        ({"kernel": "ula", "tolerance": 0}, "tolerance must be a number > 0; got 0."),
        ({"kernel": "ula", "dim": 1}, "dim must be a whole number ≥ 2; got 1."),
        ({"kernel": "ula", "kappa": 2}, "The task 'gradients' has no key 'kappa'."),
    ],
)
def test_wrong_conditions_are_refused(condition, words):
    with pytest.raises(ConfigError, match=words):
        registry.build("task", "gradients").normal(condition)


@pytest.mark.parametrize("kernel", refreshing.KERNELS)
def test_the_least_number_is_enough_and_one_fewer_is_not(kernel):
    """The search's number against 20,000 settings at random: with the number itself, the mutant, some are within the tolerance."""
    precision = spectrum(np.random.default_rng(0), 10.0, 20)
    number, setting = refreshing.least(kernel, precision, 0.1)
    assert number is not None
    rng = np.random.default_rng(1)
    far = np.exp(rng.normal(0.0, 0.5, (2, 20_000)))
    h, friction = setting.step_size * far[0], setting.friction * far[1]
    assert refreshing.error(kernel, precision, number - 1, h, friction).min() > 0.1
    assert refreshing.error(kernel, precision, number, h, friction).min() < 0.1


def test_the_error_is_that_of_simulated_chains():
    """20,000 chains of ULA in NumPy; those of another step size, the mutant, have another error."""
    precision, h, steps = np.array([1.0, 4.0]), 0.1, 12
    rng = np.random.default_rng(2)
    x = (precision**-0.5) * (1 + np.sqrt(2) * rng.normal(size=(20_000, 2)))
    for _ in range(steps):
        x = x - h * precision * x + np.sqrt(2 * h) * rng.normal(size=x.shape)
    z = x * np.sqrt(precision)
    simulated = np.sqrt(np.mean(z.mean(0) ** 2 + (z.std(0) - 1) ** 2))
    exact = refreshing.error("ula", precision, steps, np.array([h, 1.2 * h]), np.zeros(2))
    # The error of a mean of 20,000 numbers is 0.007, that of their sd 0.005.
    assert abs(simulated - exact[0]) < 0.02
    assert abs(simulated - exact[1]) > 0.02


def test_a_study_of_data_is_left_out_where_they_are_missing(monkeypatch):
    monkeypatch.setitem(paper.NEEDS, "contexts-data", ("no_such_module", "scikit-learn", "blts[datasets]"))
    left_out = paper.missing(paper.NAMES)
    assert left_out == {
        "contexts-data": "The study contexts-data is left out: its data are of scikit-learn, which is not installed "
        "(pip install 'blts[datasets]')."
    }
    assert paper.missing(paper.QUICK) == {}
    assert "Every table" not in paper.lead([name for name in paper.NAMES if name not in left_out])
