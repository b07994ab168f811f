"""From the prompt to the first table: how many programs are compiled, and where they are kept."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

COUNTED = """
import json, sys
import jax

found = {"programs": 0, "loaded": 0}


def duration(event, seconds, **about):
    found["programs"] += event == "/jax/core/compile/backend_compile_duration"


def happened(event, **about):
    found["loaded"] += event == "/jax/compilation_cache/cache_hits"


jax.monitoring.register_event_duration_secs_listener(duration)
jax.monitoring.register_event_listener(happened)
"""
HEAVY = ("matplotlib", "numpyro", "pandas", "scipy.optimize", "scipy.stats", "sqlalchemy")
"""A tenth of a second or more each, which a simulation need not wait for."""
REPORT = f"""
found["heavy"] = sorted(set(sys.modules) & set({HEAVY}))
found["folder"] = jax.config.jax_compilation_cache_dir
print(json.dumps(found))
"""


def counted(script: str, tmp_path: pathlib.Path, **environment: str) -> dict:
    """What a script compiled in a process of its own, with its own folder for compiled programs."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
    mine |= {"XDG_CACHE_HOME": str(tmp_path), "PYTHONWARNINGS": "error", **environment}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED + script + REPORT], check=True, capture_output=True, text=True, env=mine, timeout=600
    )
    return json.loads(done.stdout.splitlines()[-1])


def command(*arguments: str) -> str:
    return f"""
from blts.cli import app
sys.argv = ["blts", "simulate", *{arguments!r}]
app(standalone_mode=False)
"""


SMALL = ("--horizon", "20", "--replications", "4")


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("--agent", "exact-ts"), 3),
        (("--agent", "blts"), 3),
        (("--env", "riverswim", "--agent", "ds-psrl"), 1),
        (("--env", "inventory", "--agent", "sgld-psrl"), 4),
    ],
    ids=["exact", "blts", "tabular", "inventory"],
)
def test_programs_of_a_command(arguments, most, tmp_path):
    """One program simulates. The others, which are small, make the world and print it."""
    first = counted(command(*arguments, *SMALL), tmp_path)
    assert 1 <= first["programs"] <= most
    assert first["heavy"] == []
    again = counted(command(*arguments, *SMALL), tmp_path)
    assert again["loaded"] == again["programs"] == first["programs"]  # the small ones are kept too


NUMPYRO = """
import numpyro.distributions as dist
from blts import from_numpyro

prior = lambda m: {"a": dist.Normal(m, 1.0), "b": dist.LogNormal(-1.0, 0.3)}
model = from_numpyro(lambda a, b: dist.Logistic(a, b), prior, m=[0.0, 1.0])
"""


def test_programs_of_a_numpyro_model(tmp_path):
    """The densities are checked by one program, and the prior's spread is computed by another."""
    pytest.importorskip("numpyro")
    assert counted(NUMPYRO, tmp_path)["programs"] == 2


def test_a_program_of_ones_own_counts(tmp_path):
    """The mutant of the counts above: each eager operation is one more program, and an import is seen."""
    script = "import jax.numpy as jnp\nimport scipy.optimize\nx = jnp.arange(3) + 1\ny = jnp.sin(x * 2.0)"
    found = counted(script, tmp_path)
    assert found["programs"] >= 3
    assert found["heavy"] == ["scipy.optimize"]


KEPT = "from blts.compilation import keep_programs\njax.jit(lambda x: x + 1)(1.0)\nkeep_programs()\njax.jit(lambda x: x + 2)(1.0)\n"


def test_the_folder_is_private(tmp_path):
    """Also where something was compiled before it was set."""
    found = counted(KEPT, tmp_path)
    folder = tmp_path / "blts" / "xla"
    assert found["folder"] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir())
    folder.chmod(0o755)  # as another version made it
    counted(KEPT, tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_settings_of_jax_come_first(tmp_path):
    theirs = tmp_path / "theirs"
    assert counted(KEPT, tmp_path, JAX_COMPILATION_CACHE_DIR=str(theirs))["folder"] == str(theirs)
    assert counted(KEPT, tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")["folder"] is None
    assert not (tmp_path / "blts").exists()


@pytest.mark.parametrize("obstacle", ["a file", "nothing"])
def test_a_folder_that_cannot_be_made_is_done_without(obstacle, tmp_path):
    if obstacle == "a file":
        (tmp_path / "blts").write_text("")
        assert counted(KEPT, tmp_path)["folder"] is None
    else:
        assert counted(KEPT, tmp_path, XDG_CACHE_HOME="/proc/none")["folder"] is None


def test_a_folder_that_cannot_be_written_is_done_without(monkeypatch, tmp_path):
    """Whoever runs the tests: an administrator may write everywhere."""
    from blts import compilation

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compilation.private_folder() == tmp_path / "blts" / "xla"
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        assert compilation.private_folder() is None
    if os.name == "posix":
        with monkeypatch.context() as patch:
            patch.setattr(os, "getuid", lambda: 12345678)  # somebody else's
            assert compilation.private_folder() is None


@pytest.mark.skipif(os.name != "posix", reason="modes of folders")
@pytest.mark.parametrize("link", [False, True])
def test_a_folder_that_others_can_write_is_neither_used_nor_changed(link, monkeypatch, tmp_path):
    from blts import compilation

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compilation.private_folder()
    assert folder is not None
    if link:
        folder.rename(tmp_path / "shared")
        folder.symlink_to(tmp_path / "shared")
    for mode, used in ((0o777, None), (0o775, None), (0o700, folder)):
        folder.chmod(mode)
        assert compilation.private_folder() == used
        assert folder.stat().st_mode & 0o777 == mode


STEPS = """
import numpy as np
from blts import Bandit, DoublingCounts, Gaussian, Perturb, Thompson, sgld, simulate


def run(steps):
    env, model = Bandit.with_means(Gaussian(sd=0.5), [0.0, 1.0]), Gaussian(prior_mean=[0.0, 0.0])
    return simulate(0, env, Thompson(model, Perturb(sgld(steps=steps))), DoublingCounts(), horizon=30, replications=4)


run(50)
before = found["programs"]
few = run(7)
found["more"] = found["programs"] - before
found["equal"] = bool(np.array_equal(few.regret, run(lambda n: 7 + 0 * n).regret))
found["as_before"] = bool(np.array_equal(few.regret, run(50).regret))
found["function"] = found["programs"] - before
"""


def test_another_number_of_steps_compiles_nothing(tmp_path):
    """And counts: a function that gives the same number, which is compiled in, gives the same regret."""
    found = counted(STEPS, tmp_path)
    assert found["more"] == 0
    assert found["equal"]
    assert not found["as_before"]
    assert found["function"] >= 1
