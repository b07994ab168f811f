"""Specifications of live experiments."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest

from blts import from_json, mala, registry, to_json
from blts.agents import UCB1, Exact, Private
from blts.declared import provides
from blts.errors import BltsError, ConfigError, UnknownName
from blts.live import Experiment, Spec
from blts.live.checks import outside
from blts.models import (
    Exponential,
    Gaussian,
    Laplace,
    Linear,
    Model,
)
from blts.models.functions import from_functions
from experiments import PRIOR, log_likelihood, log_prior, made, prior_draw, rewarded

# Specifications


def test_specifications_from_files(tmp_path):
    toml = tmp_path / "spec.toml"
    toml.write_text(
        'arms = ["A", "B"]\nsampler = "exact"\nseed = 7\nfloor = 0.01\n[model]\nname = "gaussian"\n'
        'sd = 1.0\nprior_mean = [0.0, 1.0]\n[batching]\nname = "fixed"\nsize = 5\n'
    )
    spec = Spec.read(toml)
    assert spec.batching.options == {"size": 5}
    assert Spec.from_json(spec.to_json()).to_json() == spec.to_json()
    other = tmp_path / "spec.json"
    other.write_text(json.dumps({"arms": [{"label": "A", "metadata": {"cost": 2}}, {"label": "B"}], "model": "bernoulli"}))
    assert Spec.read(other).arms[0].metadata == {"cost": 2}
    experiment = Experiment.create(tmp_path / "x.db", "x", spec=spec)
    assert len(experiment.ask(9).decisions) == 9
    for text in ("arms = [", "[1, 2]", '{"arms": ["A"]}', '{"arms": ["A"], "model": "gaussian", "colour": 3}'):
        wrong = tmp_path / ("wrong.toml" if text.startswith("arms") else "wrong.json")
        wrong.write_text(text)
        with pytest.raises(ConfigError):
            Spec.read(wrong)
    with pytest.raises(ConfigError, match="cannot be read"):
        Spec.read(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": []}, "between 2 and"),
        ({"arms": "ABC"}, "list of labels"),
        ({"arms": ["A", "A"]}, "given twice"),
        ({"arms": ["A", ""]}, "not empty"),
        ({"arms": ["A", "\x00"]}, "NUL"),
        ({"arms": ["A", "\ud800"]}, "surrogates"),
        ({"arms": ["A", 3]}, "must be text"),
        ({"model": "gausian"}, "Did you mean 'gaussian'"),
        ({"model": {"name": "gaussian", "sdd": 1.0}}, "no option 'sdd'"),
        ({"model": {"name": "gaussian", "sd": -1.0}}, "must be > 0"),
        ({"model": {"name": "gaussian", "sd": "wide"}}, "number"),
        ({"model": PRIOR, "arms": ["A", "B"]}, "3 arms"),
        ({"model": 3}, "log_likelihood"),
        ({"model": Laplace()}, "conjugate"),
        ({"sampler": "tsde"}, "MDPs"),
        ({"sampler": 3}, "A sampler is"),
        ({"sampler": UCB1(2)}, "2 arms"),
        ({"batching": "sometimes"}, "no batching"),
        ({"batching": 3}, "The batching must be an object"),
        ({"batching": {"name": "external", "size": 3}}, "no options"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"floor": 0.5}, "leave nothing"),
        ({"floor": -0.1}, "probability"),
        ({"control": "Z"}, "none of the arms"),
        ({"burn_in": -1}, "burn_in"),
        ({"window": math.nan}, "window"),
        ({"default_reward": 1.0}, "attribution window"),
        ({"model": "bernoulli", "window": 1.0, "default_reward": 0.5}, "cannot occur"),
        ({"cap": math.inf}, "cap"),
        ({"draw": "lots"}, "draw must be"),
        ({"colour": 3}, "no setting 'colour'"),
        ({"windw": "1d"}, "no setting 'windw'. Did you mean 'window'"),
    ],
)
def test_specifications_are_checked_before_anything_is_stored(tmp_path, change, words):
    with pytest.raises(BltsError, match=words):
        made(tmp_path, **change)
    assert not (tmp_path / "blts.db").exists()


def test_models_made_of_functions_are_given_again(tmp_path):
    """No database holds a function; the same one is asked for at every opening."""
    model = from_functions(log_prior, log_likelihood, L=1.0, init=prior_draw)
    experiment = made(tmp_path, model=model, sampler="mala")
    experiment.ask(2)
    with pytest.raises(ConfigError, match=r"open it in Python, with Experiment.open\(url, name, model="):
        Experiment.open(tmp_path / "blts.db", "mail")
    with pytest.raises(ConfigError, match="this is Gaussian"):
        Experiment.open(tmp_path / "blts.db", "mail", model=Gaussian())
    assert len(Experiment.open(tmp_path / "blts.db", "mail", model=model).ask(2).decisions) == 2


@pytest.mark.parametrize("name", [name for name, entry in registry.entries("model").items() if not entry.about.get("contextual")])
def test_every_model_has_a_name(name):
    """What is registered are the models themselves, with their own defaults, and their words survive JSON."""
    model = registry.build("model", name)
    assert provides(model, Model)
    own = {"exponential": Exponential, "linear": partial(Linear, prior_mean=[0.0])}.get(name, type(model))()
    assert repr(model) == repr(own)
    assert repr(from_json(to_json(model))) == repr(model)
    assert outside(model, 1.0) is None


def test_any_label_goes(tmp_path):
    labels = ["Ä ß", "日本語", "🦊🐻", "'; DROP TABLE blts_arms; --", 'a,b\n"c"', "[bold]x[/]"]
    experiment = made(tmp_path, "n'am\"e; ✓", arms=labels, batching="external")
    answer = experiment.ask(30)
    assert set(answer.decisions[0].propensities) == set(labels)
    experiment.tell(rewarded(answer))
    assert experiment.export(tmp_path / "x.csv") == 30
    assert experiment.verify() == []


def test_a_sampler_is_named_as_it_is_listed():
    """Short names come first, so that experiments of earlier code are continued with the agent that they had."""
    registry.register("sampler", "own-walk")(mala)
    for name, words in (
        ("sgld", "blts"),
        ("exact", "exact-ts"),
        ("ucb1", "ucb1"),
        ("own-walk", "thompson(sampler=own-walk, steps=3)"),
    ):
        given = {"name": name, "steps": 3} if name == "own-walk" else name
        assert Spec.of(["A", "B"], "numbers", given, "external").sampler._replace(said=None).words == words
    with pytest.raises(UnknownName, match=r"no agent or sampler named 'own-wlak'. Did you mean 'own-walk'\?"):
        Spec.of(["A", "B"], "numbers", "own-wlak", "external")


def test_durations_in_words():
    metric = {"name": "refunds", "model": "conversions", "window": "2 days"}
    spec = Spec.of(["A", "B"], "conversions", window="6h", refresh_seconds="30min", metrics=[metric])
    assert (spec.window, spec.refresh_seconds, spec.metrics[0].window) == (21600.0, 1800.0, 172800.0)
    for wrong in (
        {"window": "6 fortnights"},
        {"window": "-1d"},
        {"refresh_seconds": "often"},
        {"metrics": [metric | {"window": "d"}]},
    ):
        with pytest.raises(ConfigError, match="such as 30min, 6h or 1d"):
            Spec.of(["A", "B"], "conversions", **wrong)


def test_private_agents_are_refused(tmp_path):
    """A corrected reward would be in two releases, so the promise would not hold."""
    with pytest.raises(ConfigError, match="Private agents are for simulations"):
        Experiment.create(
            tmp_path / "x.db", "private", arms=["a", "b"], model=Gaussian(sd=0.5), sampler=Private(Exact(), 1.0, 0.0, 1.0)
        )
