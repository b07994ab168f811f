"""Draws the figure of the README from fresh simulations, and those of the pages in docs/start, by the code that these pages show:
`python docs/make_figures.py [replications]` (extras: report, live)."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from blts import Trace, condition, simulate

DOCS = pathlib.Path(__file__).resolve().parent
HERE = DOCS / "figures"
START = {"researcher.md": ("regret.svg", "start-regret.svg"), "experimenter.md": ("figures/allocation.svg", "start-allocation.svg")}
"""Pages, what the code of each draws, and the name that the picture has there."""
HORIZON = 650
SCHEMES = ("sequential", "dynamic", "static")
# Lines differ in dash and shade, so that the figure reads in black and white.
STYLES = {
    "ucb1": ("UCB1", {"color": "#6b6b6b", "linestyle": (0, (1, 1.2))}),
    "exact-ts": ("exact Thompson sampling", {"color": "#d1632a", "linestyle": (0, (5, 2))}),
    "blts": ("Langevin Thompson sampling (SGLD)", {"color": "#12456b", "linestyle": "solid"}),
}


def run(agent: str, scheme: str, replications: int) -> Trace:
    chosen = condition("gaussian", agent, scheme, "informative", HORIZON)
    return simulate(0, chosen.env, chosen.agent, chosen.batching, horizon=HORIZON, replications=replications, times=80)


def round_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(1, HORIZON)
    axes.set_xlabel("round")


def draw_regret(axes: Axes, scheme: str, traces: dict[str, Trace]) -> None:
    for agent, (label, style) in STYLES.items():
        band = traces[agent].band()
        sd = traces[agent].regret.std(0, ddof=1)
        axes.fill_between(band.times, band.mean - sd, band.mean + sd, color=style["color"], alpha=0.15, linewidth=0)
        axes.plot(band.times, band.mean, label=label, linewidth=1.8, **style)
    round_axis(axes)
    axes.set_ylim(0, 190)
    blts = traces["blts"]
    axes.set_title(f"{scheme}\n{blts.batches.mean():.0f} batches, regret {blts.final_regret.mean():.0f}", fontsize=10)


def draw_batches(axes: Axes, traces: dict[str, Trace]) -> None:
    ends = {"sequential": 1.15, "dynamic": 1.3, "static": 0.45}  # where the label sits, as a factor of the last value
    dashes = {"sequential": (0, (1, 1)), "dynamic": "solid", "static": (0, (5, 2))}
    for scheme, trace in traces.items():
        count = trace.batches_by().mean(0)
        axes.plot(trace.times, count, color="#12456b", linestyle=dashes[scheme], linewidth=1.8)
        axes.annotate(scheme, (HORIZON * 0.85, count[-1] * ends[scheme]), ha="right", fontsize=9, color="#12456b")
    round_axis(axes)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0.9, 1200)
    axes.set_title("batches used by\nLangevin Thompson sampling", fontsize=10)


def main(replications: int = 400) -> None:
    traces = {scheme: {agent: run(agent, scheme, replications) for agent in STYLES} for scheme in SCHEMES}
    plt.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "blts"}
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.5), layout="constrained", gridspec_kw={"width_ratios": (1, 1, 1, 0.9)})
    for axes, scheme in zip(panels[:3], SCHEMES, strict=True):
        draw_regret(axes, scheme, traces[scheme])
    for axes in panels[1:3]:
        axes.set_yticklabels([])
    panels[0].set_ylabel("cumulative regret, mean ± sd")
    draw_batches(panels[3], {scheme: traces[scheme]["blts"] for scheme in SCHEMES})
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    HERE.mkdir(exist_ok=True)
    figure.savefig(HERE / "regret.svg", metadata={"Date": None})
    if "--png" in sys.argv:
        figure.savefig(HERE / "regret.png", dpi=110)


def start() -> None:
    """Run the code of the pages in docs/start, and keep what it draws."""
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same file each time
    plt.rcParams["svg.hashsalt"] = "blts"
    for page, (drawn, name) in START.items():
        code = "\n".join(
            re.findall(r"^```python\n(.*?)^```$", (DOCS / "start" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
        )
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            exec(compile(code, page, "exec", dont_inherit=True), {"__name__": "page"})
            shutil.copy(drawn, HERE / name)


if __name__ == "__main__":
    start()
    main(*(int(x) for x in sys.argv[1:] if x.isdigit()))
