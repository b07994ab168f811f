"""Other packages on the same bandit: decision steps per second of one replication.

They run in environments of their own, `.venv-peers` and `.venv-peers-mdps`: what they ask for contradicts each other.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

from rich.table import Table

from . import bandits
from .timing import alternate

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = {
    "peer_runs.py": (".venv-peers", ("mabwiser==2.7.4", "river==0.26.1")),
    "peer_contexts.py": (".venv-peers", ("mabwiser==2.7.4", "river==0.26.1")),
    "peer_mdps.py": (".venv-peers-mdps", ("statisticalrl-learners==2.2507",)),
}
"""The environment of each script of this folder that runs peers, and what is installed there."""


class CannotInstall(Exception):
    """The peers' environment could not be made, for example without a network."""


def environment(script: str) -> pathlib.Path:
    """The Python of a script's environment, which is made when it is missing."""
    folder, packages = PEERS[script]
    home = ROOT / folder
    python, done = home / "bin" / "python", home / "installed"
    if done.exists() and done.read_text().split() == list(packages):
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    for command in ([sys.executable, "-m", "venv", str(home)], pip):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise CannotInstall(ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else " ".join(command))
    done.write_text("\n".join(packages))
    return python


def run_there(script: str, *arguments: int) -> Any:
    """What a script of this folder prints as JSON in the peers' environment, or why it did not run."""
    try:
        python = environment(script)
    except CannotInstall as error:
        return f"The peers could not be installed, so they are left out: {error}"
    command = [str(python), str(ROOT / "benchmarks" / script), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        return f"The peers did not run, so they are left out: {ran.stderr.strip().splitlines()[-1]}"
    return json.loads(ran.stdout)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    say("installing and running peers …")
    rows = run_there("peer_runs.py", rounds)
    if isinstance(rows, str):
        return {"skipped": rows}
    for agent, policy in (("exact-ts", "exact Thompson"), ("ucb1", "UCB1")):
        for R in (1, replications):
            say(f"blts, {agent}, {R} replications …")
            timing = alternate([bandits.ours("gaussian", agent, "sequential", R)], rounds)[0]
            name = f"blts, {R} replication{'s' if R > 1 else ''}"
            rows.append({"name": name, "policy": policy, "steps_per_s": timing.rate, "regret": float(timing.outcome.regret.mean())})
    return {"rows": rows}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title="Peers: the Gaussian bandit, 15 arms, T = 650, rewards seen every round",
        caption="A peer runs one replication at a time. Median over rounds; regret is their mean, and differs between policies.",
        caption_justify="left",
    )
    if "skipped" in result:
        table.add_column(result["skipped"])
        return [table]
    for name in ("package", "policy"):
        table.add_column(name, no_wrap=True)
    for name in ("steps/s", "regret"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["rows"]:
        table.add_row(row["name"], row["policy"], bandits.steps(row["steps_per_s"]), f"{row['regret']:.0f}")
    return [table]
