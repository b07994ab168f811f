"""MDPs on the command line."""

from __future__ import annotations

import json
import math

import pytest

from blts import registry
from running_cli import blts, one_sentence, refused, simulate

# MDPs

MDPS = [name for name, entry in registry.entries("environment").items() if entry.about.get("mdp")]
FIXED = [name for name in MDPS if name != "dirichlet-mdp"]

# Options, the optimal average reward and the policy, or what describes it. None is a tie: both actions do the same.
OPTIMA = {
    "the paper's RiverSwim": (("riverswim-paper",), 7.5132, [1, 1, 1, 1, None]),
    "the Strens chain": (("strens-chain",), 4.1760, [1, 1, 1, 1, 1]),
    "a RiverSwim that pays 2 and 10": (
        ("riverswim", "--set", "states=5", "--set", "left=2", "--set", "right=10"),
        4.2893,
        [1, 1, 1, 1, 1],
    ),
    "RiverSwim": (("riverswim",), 0.4286, [1, 1, 1, 1, 1, 1]),
    "linear-quadratic control": (("linear-quadratic",), -1.245227, {"gain": 1.362370}),
    "an inventory": (("inventory",), -2.977173, 6),
    "a larger inventory": (("inventory", "--set", "rate=30"), -7.861643, 35),
    "admission control": (("admission",), 1.52363746, 3),
    "machine replacement": (("machine-replacement",), -0.94530537, 3),
    "a logit RiverSwim": (("logit-riverswim",), 0.85715014, [1, 1, 1, 1, 1, 1]),
}


def solved(*arguments: str) -> dict:
    return json.loads(blts("mdp", "solve", *arguments, "--json"))


def test_the_list_of_mdps():
    found = json.loads(blts("mdp", "list", "--json"))
    assert [item["name"] for item in found] == MDPS
    assert found[MDPS.index("riverswim")]["options"] == {"states": 6, "left": 0.005, "right": 1.0}
    assert all(item["summary"].endswith(".") for item in found)
    words = blts("mdp", "list")
    assert all(name in words for name in MDPS)
    assert "gaussian" not in words


@pytest.mark.parametrize("name", OPTIMA)
def test_known_optima(name):
    arguments, gain, policy = OPTIMA[name]
    found = solved(*arguments)
    assert found["gain"] == pytest.approx(gain, abs=1e-4)
    if isinstance(policy, dict):
        assert found["policy"]["gain"] == pytest.approx(policy["gain"], abs=1e-4)
    elif isinstance(policy, list):
        assert [None if b is None else a for a, b in zip(found["policy"], policy, strict=True)] == policy
    else:
        assert found["policy"] == policy
    assert 0 <= found["residual"] < 1e-6


@pytest.mark.parametrize("name", FIXED)
def test_every_mdp_is_solved(name):
    found = solved(name)
    assert found["name"] == name
    assert {"gain", "policy", "span", "residual"} <= found.keys()
    assert registry.find("environment", name).options().items() <= found.items()
    assert math.isfinite(found["gain"])
    assert 0 <= found["residual"] < 1e-6 * max(1, abs(found["gain"]))
    endless = ("linear-quadratic", "inventory", "lost-sales", "admission")
    assert (found["span"] is None) == (name in endless)  # their states are infinitely many
    assert found["span"] is None or found["span"] >= 0


def test_an_option_changes_the_optimum():
    assert solved("strens-chain", "--set", "slip=0.1")["gain"] > solved("strens-chain")["gain"] + 1
    longer = solved("riverswim", "--set", "states=9")
    assert longer["states"] == len(longer["policy"]) == 9


def test_the_words_of_an_optimum():
    text = blts("mdp", "solve", "strens-chain")
    for word in ("strens-chain: ", "gain, a round", "4.176", "1 1 1 1 1", "span of the bias", "certified to within"):
        assert word in text
    assert "… (30 states)" in blts("mdp", "solve", "riverswim", "--set", "states=30")
    assert "gain 1.36237" in blts("mdp", "solve", "linear-quadratic")


BAD_MDP = {
    "a bandit": (("gaussian",), "'gaussian' is a bandit; `blts mdp list` shows the MDPs."),
    "a drawn problem": (("dirichlet-mdp",), "there is no one optimum; name a fixed MDP."),
    "unknown name": (("riverswin",), "no environment named 'riverswin'. Did you mean 'riverswim'?"),
    "unknown option": (("riverswim", "--set", "stat=3"), "Did you mean 'states'? Its options: states, left, right."),
    "an option of another MDP": (("riverswim", "--set", "slip=0.1"), "has no option 'slip'."),
    "no equals sign": (("riverswim", "--set", "states"), "--set takes name=value"),
    "one state": (("riverswim", "--set", "states=1"), "states must be a whole number ≥ 2; got 1."),
    "no probability": (("strens-chain", "--set", "slip=2"), "slip must be a probability between 0 and 0.5; got 2."),
    "an infinite reward": (("riverswim", "--set", "right=inf"), "Rewards must be finite"),
    "a negative seed": (("garnet", "--set", "seed=-1"), "seed must be a whole number ≥ 0; got -1."),
    "too many successors": (("garnet", "--set", "successors=11"), "successors must be at most the 10 states; got 11."),
    "levels that cut off the optimum": (
        ("inventory", "--set", "rate=30", "--set", "levels=20"),
        "levels=20 cuts off what is best for a demand of rate 30; give levels=36 or more, or leave it out.",
    ),
    "a negative cost": (("inventory", "--set", "holding=-1"), "holding must be > 0 and finite; got -1."),
}


@pytest.mark.parametrize("name", BAD_MDP)
def test_bad_mdps_are_refused_in_one_sentence(name, capsys):
    arguments, words = BAD_MDP[name]
    err = refused(capsys, "mdp", "solve", *arguments)
    assert words in err
    one_sentence(err)


@pytest.mark.parametrize("name", MDPS)
def test_every_option_of_an_mdp_is_a_number(name, capsys):
    """Text, nothing, flags and NaN are refused for each option by its name, and fractions where a count is meant."""
    for option, default in registry.find("environment", name).options().items():
        whole = isinstance(default, int)
        for value in ("abc", "none", "true", "nan", *(["2.5", "inf"] if whole else [])):
            err = refused(capsys, "mdp", "solve", name, "--set", f"{option}={value}")
            assert f"{option} must be a {'whole ' if whole else ''}number; got " in err
            one_sentence(err)
        again = refused(capsys, "simulate", "--env", name, "--agent", "optimal", "--set", f"{option}={value}")
        assert again == err  # it builds the environment as `mdp solve` does


@pytest.mark.parametrize("arguments", [("mdp", "solve"), ("mdp", "solv", "riverswim"), ("mdp", "solve", "riverswim", "--colour")])
def test_what_the_parser_of_mdps_refuses_has_code_two(arguments, capsys):
    refused(capsys, *arguments)


def test_an_agent_in_the_wrong_world_is_refused(capsys):
    for arguments, words in (
        (("--env", "riverswim", "--agent", "ucb1"), "'ucb1' cannot play 'riverswim', which is a tabular MDP; use one of mld-psrl"),
        (("--env", "inventory", "--agent", "tsde"), "'tsde' cannot play 'inventory', which is an MDP with a parameter vector"),
        (
            ("--env", "gaussian", "--agent", "ds-psrl"),
            "'ds-psrl' cannot play 'gaussian', which is a bandit without contexts; use one of blts",
        ),
        (("--env", "inventory", "--agent", "sgld-psrl", "--batching", "tsde"), "no table of states to count visits in"),
        (("--env", "riverswim", "--agent", "optimal", "--drawn"), "no one policy is optimal; leave out --drawn."),
        (("--env", "riverswim", "--agent", "ds-psrl", "--prior", "informative"), "no prior named 'informative'."),
    ):
        err = refused(capsys, "simulate", *arguments)
        assert words in err
        one_sentence(err)


def check_summary(found: dict, horizon: int, replications: int) -> None:
    for name in ("reward", "switches", "regret"):
        assert math.isfinite(found[f"{name}_mean"]), name
        assert found[f"{name}_sd"] >= 0, name
    assert (found["horizon"], found["replications"]) == (horizon, replications)
    # Regret is what was earned less than the optimum: 7.5132 a round.
    assert found["regret_mean"] == pytest.approx(horizon * (7.5132 - found["reward_mean"]), abs=2e-4 * horizon)
    # Static doubling: 1, 2, 4, … rounds, each with a policy.
    assert found["switches_mean"] == (horizon + 1).bit_length() - 1
    assert found["switches_sd"] == 0


def test_posterior_sampling_in_json():
    """The exact sampler in a few rounds; the published setting is in the slow run."""
    arguments = ("--env", "riverswim-paper", "--agent", "ds-psrl", "--horizon", "63", "--replications", "4")
    found = simulate(*arguments)
    check_summary(found, 63, 4)
    assert {"env", "agent", "batching", "prior"} <= found.keys()
    assert (found["batching"], found["prior"]) == ("static", "uniform")
    assert 0 <= found["reward_mean"] <= 10


@pytest.mark.slow
def test_the_papers_riverswim_in_json():
    found = simulate("--env", "riverswim-paper", "--agent", "mld-psrl", "--horizon", "4095", "--replications", "100")
    check_summary(found, 4095, 100)
    assert found["refreshes_finite"]
    # It learns: most of the optimum, which an agent that stays at the left end (2 a round) is far from.
    assert 5.0 < found["reward_mean"] < 7.6
