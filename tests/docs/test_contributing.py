"""docs/howto-contribute.md: every step is applied as printed to a copy of the repository, where the tests that it names pass."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("openfeature", reason='the reference imports every module: pip install "blts[all]"')
pytest.importorskip("sphinx", reason='the reference needs Sphinx: pip install "blts[docs]"')

from documents import ROOT
from steps import PAGE, Step, apply, copied, patched, steps

STEPS = steps(PAGE.read_text(encoding="utf-8"))


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a copy, with the compiled programs of this one."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / "xla"), "PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-vv", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | cache, capture_output=True, text=True, encoding="utf-8")


def passed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The names of the tests that passed; a test that failed, or none at all, is an error."""
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return re.findall(r"^(\S+::\S+.*?) PASSED", done.stdout, re.MULTILINE)


def together(commands: list[list[str]]) -> list[str]:
    """Commands as one, so that the default tests start one process: all files, and what any `-k` takes."""
    files, words = [], []
    for command in commands:
        files += command[: next((i for i, word in enumerate(command) if word.startswith("-")), len(command))]
        words += [command[command.index("-k") + 1]] if "-k" in command else [pathlib.Path(command[0]).stem]
    return [*dict.fromkeys(files), "-m", "", "-k", " or ".join(f"({word})" for word in words)]


def test_the_page_has_five_steps():
    assert [step.name for step in STEPS] == [
        "A model",
        "An agent",
        "A batching scheme",
        "An environment",
        "A figure of the report",
    ]
    assert [[kind for kind, *_ in step.changes].count("py") for step in STEPS] == [1, 2, 1, 1, 1]
    assert all(step.commands for step in STEPS)
    assert all(len(text.splitlines()) < 90 for step in STEPS for _, _, text in step.changes)


def test_all_steps_in_one_copy(tmp_path):
    """With the formatter and the linter; the slow run does each step by itself."""
    folder = copied(tmp_path / "blts")
    changed = [name for step in STEPS for name in apply(step, folder)]
    python = [name for name in dict.fromkeys(changed) if name.endswith(".py")]
    for command in (["format", "--check"], ["check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, *python], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    names = passed(run(folder, *together([command for step in STEPS for command in step.commands])))
    for part in (
        "LogisticErrors",
        "explore-then-commit",
        "lengthening",
        "contaminated",
        "every_kind_of_figure",
        "one_entry",
        "then_one_arm",
    ):
        assert any(part in name for name in names), part
    assert any("models.logistic_errors.LogisticErrors" in name for name in names)  # the example in its docstring


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_a_step_by_itself(step: Step, tmp_path):
    folder = copied(tmp_path / "blts")
    apply(step, folder)
    for command in step.commands:
        assert passed(run(folder, *command))


MUTANTS = {
    "a density that is no density": ("- 2.0 * jnp.log1p", "- 1.0 * jnp.log1p", "A model", "the_density_of_the_likelihood"),
    "draws of another scale": (
        "self.scale * jax.random",
        "1.1 * self.scale * jax.random",
        "A model",
        "the_density_of_the_likelihood",
    ),
    "an agent that never commits": ("jnp.min(played.counts) < self.rounds", "played.t > 0", "An agent", "then_one_arm"),
    "regret of another arm": ("gaps_of(means)[action]", "gaps_of(means)[0]", "An environment", "a_bandit_pays"),
    "too few batches": ("(math.isqrt", "-1 + (math.isqrt", "A batching scheme", "a_batching_scheme_runs"),
    "no entry in the reference": ("blts.envs.Contaminated", "", "An environment", "has_one_entry"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_part_fails_the_tests_that_the_page_names(mutant, tmp_path):
    """The mutants of the page: what its commands run would notice."""
    right, wrong, name, test = MUTANTS[mutant]
    step = next(step for step in STEPS if step.name == name)
    changes = [(kind, file, text.replace(right, wrong)) for kind, file, text in step.changes]
    assert changes != step.changes
    folder = copied(tmp_path / "blts")
    apply(step._replace(changes=[change for change in changes if change[2].strip("+\n ")]), folder)
    said = "".join(run(folder, *command).stdout for command in step.commands)
    assert re.search(rf"^FAILED \S*{test}", said, re.MULTILINE)


def test_a_change_that_no_longer_fits_is_refused():
    assert patched("a\nb\nc\n", " b\n+new\n c\n") == "a\nb\nnew\nc\n"
    assert patched("a\nb\n", " a\n-b\n+c\n@@\n a\n+new\n") == "a\nnew\nc\n"
    for text in ("a\nc\n", "b\nb\n"):
        with pytest.raises(ValueError, match="not once in the file"):
            patched(text, " b\n+new\n")
