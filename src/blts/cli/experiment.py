"""`blts experiment`: live experiments from a shell.

Exit codes: 0 done, 1 an error of ours, 2 refused (one sentence says why), 3 a refresh that has to wait,
4 `verify` found differences, 5 `tell --strict` had rows that were not accepted.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pathlib
import sys
from typing import Annotated, Any

import typer

from ..errors import ConfigError

app = typer.Typer(
    help="Live experiments: ask for decisions, tell rewards, refresh the posterior.\n\n"
    "Exit codes: 0 done, 1 an error of ours, 2 refused, 3 a refresh that has to wait, 4 verify found differences, "
    "5 tell --strict had rows that were not accepted.",
    no_args_is_help=True,
)

WAITS, DIFFERS, NOT_ACCEPTED = 3, 4, 5

Name = Annotated[str, typer.Argument(help="The experiment.")]
Db = Annotated[str | None, typer.Option("--db", help="A database URL or a file; by default BLTS_DB, or blts.db here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reason = Annotated[str, typer.Option(help="A word for the audit log.")]
Request = Annotated[str | None, typer.Option("--request-id", help="The same id again gives the same answer again.")]


def _live() -> Any:
    """The library, with compiled programs kept between commands."""
    from ..compilation import prepare

    prepare()
    try:
        from .. import live
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        raise ConfigError('Experiments need SQLAlchemy; install it with: pip install "blts[live]".') from None
    return live


def _open(db: str | None, name: str) -> Any:
    return _live().Experiment.open(db, name)


def _print(data: Any) -> None:
    typer.echo(json.dumps(data, allow_nan=False))


def _say(text: str) -> None:
    from rich.console import Console

    Console().print(text, highlight=False, markup=False)


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for i, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(escape(_cell(x)) for x in row))
    Console().print(table)


def _cell(x: Any) -> str:
    if x is None:
        return "–"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


@app.command()
def create(
    name: Name,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="An arm's label; repeat it for every arm.")] = None,
    model: Annotated[str | None, typer.Option(help="The reward model; `blts list` shows all.")] = None,
    sampler: Annotated[str | None, typer.Option(help="The agent, or sgld, exact, ula or mala.")] = None,
    batching: Annotated[str | None, typer.Option(help='A batching scheme, or "external".')] = None,
    spec: Annotated[pathlib.Path | None, typer.Option(help="A TOML or JSON file that has all this.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same decisions.")] = None,
    floor: Annotated[float | None, typer.Option(help="Probability that every arm has on top.")] = None,
    control: Annotated[str | None, typer.Option(help="The control arm; by default the first.")] = None,
    control_share: Annotated[float | None, typer.Option(help="Probability that the control has on top.")] = None,
    burn_in: Annotated[int | None, typer.Option(help="Units that every arm has first.")] = None,
    window: Annotated[float | None, typer.Option(help="Seconds after which a reward is no longer awaited.")] = None,
    default_reward: Annotated[float | None, typer.Option(help="What silence has earned when the window is over.")] = None,
    cap: Annotated[float | None, typer.Option(help="Rewards above it count as this much in reports.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the model, sampler or batching, as name=value; repeatable.")
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Define an experiment. The same command again changes nothing."""
    given = {
        "seed": seed,
        "floor": floor,
        "control": control,
        "control_share": control_share,
        "burn_in": burn_in,
        "window": window,
        "default_reward": default_reward,
        "cap": cap,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    parts = {"model": model, "sampler": sampler, "batching": batching}
    if spec is not None and (arm or chosen or set_ or any(parts.values())):
        raise ConfigError("A specification file has everything; give --spec alone, or the options.")
    if spec is None and (not arm or model is None):
        raise ConfigError("An experiment needs --arm (once for every arm) and --model, or --spec.")
    live = _live()
    if spec is not None:
        experiment = live.Experiment.create(db, name, spec=live.Spec.read(spec))
    else:
        named = {key: value for key, value in parts.items() if value is not None}
        experiment = live.Experiment.create(db, name, arm, **_with_options(named, set_ or []), **chosen)
    status = experiment.status()
    if as_json:
        _print(status)
    else:
        _say(f"{name}: {len(status['arms'])} arms, {status['model']}, {status['sampler']}, {status['batching']} batching.")


def _with_options(parts: dict[str, str], pairs: list[str]) -> dict[str, Any]:
    """Each `--set` under the part that has an option of that name."""
    from ..catalogue.condition import sorted_options
    from ..live.spec import BATCHINGS, EXTERNAL, SAMPLERS
    from ..registry import find
    from .simulate import options_of

    names = {"sampler": "blts", "batching": "dynamic"} | parts
    entries = {
        "model": find("model", names["model"]),
        "sampler": find("agent", SAMPLERS.get(names["sampler"], names["sampler"])),
    }
    if names["batching"] != EXTERNAL:
        entries["batching"] = find("batching", BATCHINGS.get(names["batching"], names["batching"]))
    chosen = sorted_options(entries, options_of(pairs))
    return {kind: {"name": names[kind], **chosen.get(kind, {})} for kind in names if kind in parts or chosen.get(kind)}


@app.command("list")
def list_(db: Db = None, as_json: AsJson = False) -> None:
    """Show the experiments of a database."""
    _live()
    from ..live.store import Store

    names = Store(db, create=False).names()
    if as_json:
        _print(names)
    else:
        for name in names:
            _say(name)


@app.command()
def ask(
    name: Name,
    n: Annotated[int, typer.Option("--n", help="How many decisions.")] = 1,
    request_id: Request = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Get decisions. They are stored before they are printed."""
    answer = _open(db, name).ask(n, request_id)
    if as_json:
        decisions = [
            {
                "decision_id": d.id,
                "id": d.id,
                "arm": d.arm,
                "batch": d.batch,
                "policy_version": d.policy,
                "propensities": d.propensities,
            }
            for d in answer.decisions
        ]
        _print(
            {
                "decisions": decisions,
                "feedback_due": answer.feedback_due,
                "awaited": answer.awaited,
                "paused": answer.paused,
                "why": answer.why,
            }
        )
        return
    if answer.decisions:
        rows = [[d.id, d.arm, d.batch, d.policy, d.propensities[d.arm]] for d in answer.decisions]
        _table(f"{name}: {len(rows)} decisions", ["decision_id", "arm", "batch", "policy", "propensity"], rows)
    if answer.why:
        _say(f"{len(answer.decisions)} of {n} decisions: {answer.why}.")


@app.command()
def tell(
    name: Name,
    file: Annotated[str, typer.Argument(help="A CSV or JSONL file with decision_id and reward; - for standard input.")] = "-",
    request_id: Request = None,
    strict: Annotated[bool, typer.Option("--strict", help=f"Exit with {NOT_ACCEPTED} if a row was not accepted.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record rewards. Every row has a fate: accepted, duplicate, conflict, unknown or invalid."""
    rows = read_rewards(file)
    told = _open(db, name).tell(rows, request_id)
    if as_json:
        _print(told._asdict())
    else:
        fates = ("accepted", "duplicate", "conflict", "unknown", "invalid")
        _say(", ".join(f"{getattr(told, fate)} {fate}" for fate in fates) + f"; {told.awaited} rewards are awaited.")
        for fate, ids in told.ids.items():
            shown = ", ".join(f"{i[0]} ({i[1]})" if isinstance(i, list) else str(i) for i in ids[:10])
            _say(f"{fate}: {shown}{f' and {len(ids) - 10} more' if len(ids) > 10 else ''}")
    if strict and told.conflict + told.unknown + told.invalid:
        raise typer.Exit(NOT_ACCEPTED)


def read_rewards(file: str) -> list[tuple[Any, Any]]:
    """(decision id, reward) pairs from CSV with a header, or from one JSON object a line."""
    if file == "-":
        text = sys.stdin.read()
    else:
        try:
            text = pathlib.Path(file).read_bytes().decode("utf-8-sig", errors="replace")
        except OSError as error:
            raise ConfigError(f"The file {file} cannot be read ({error.strerror}).") from None
    first = text.lstrip("\ufeff \t\r\n")[:1]
    return _from_jsonl(text) if first in ("{", "[") else _from_csv(text)


def _from_csv(text: str) -> list[tuple[Any, Any]]:
    csv.field_size_limit(1 << 30)
    try:
        lines = list(csv.reader(io.StringIO(text.lstrip("\ufeff").replace("\x00", "�"), newline="")))
    except csv.Error as error:
        raise ConfigError(f"This is not CSV: {error}.") from None
    lines = [line for line in lines if line]
    if not lines:
        return []
    header = [cell.strip() for cell in lines[0]]
    if "decision_id" not in header or "reward" not in header:
        raise ConfigError(f"The file needs the columns decision_id and reward; it has {', '.join(header)[:200]}.")
    which, what = header.index("decision_id"), header.index("reward")
    cell = lambda line, i: line[i].strip() if i < len(line) else ""  # noqa: E731
    return [(cell(line, which), _number(cell(line, what))) for line in lines[1:]]


def _from_jsonl(text: str) -> list[tuple[Any, Any]]:
    try:
        whole = json.loads(text) if text.lstrip("\ufeff").lstrip().startswith("[") else None
        items = whole if whole is not None else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"This is not JSON, one object a line: {error}.") from None
    return [(item.get("decision_id"), item.get("reward")) if isinstance(item, dict) else (None, None) for item in items]


def _number(text: str) -> Any:
    """A number where the text is one; otherwise the text, which `tell` then calls invalid."""
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text


@app.command("tell-aggregate")
def tell_aggregate(
    name: Name,
    arm: Annotated[str, typer.Option(help="The arm.")],
    count: Annotated[int, typer.Option(help="How many rewards the totals are of.")],
    request_id: Annotated[str, typer.Option("--request-id", help="The same id again counts once.")],
    total: Annotated[float | None, typer.Option(help="The sum of the rewards.")] = None,
    total_of_squares: Annotated[float | None, typer.Option(help="The sum of their squares.")] = None,
    positive: Annotated[int | None, typer.Option(help="How many are above zero.")] = None,
    total_of_logs: Annotated[float | None, typer.Option(help="The sum of the logarithms of those above zero.")] = None,
    total_of_squared_logs: Annotated[float | None, typer.Option(help="The sum of the squares of those logarithms.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Record totals of an arm, for models whose posterior needs no more."""
    told = _open(db, name).tell_aggregate(
        arm,
        count,
        request_id=request_id,
        total=total,
        total_of_squares=total_of_squares,
        positive=positive,
        total_of_logs=total_of_logs,
        total_of_squared_logs=total_of_squared_logs,
    )
    if as_json:
        _print(told._asdict())
    else:
        _say(f"{told.accepted} accepted; {told.awaited} rewards are awaited.")


@app.command()
def refresh(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Close the batch with the rewards that are in.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Learn from the rewards and write a new policy version, when the batch is complete."""
    done = _open(db, name).refresh(force=force)
    if as_json:
        _print(done._asdict())
    elif done.refreshed and done.in_use:
        _say(f"Policy version {done.version} is in use; batch {done.batch} is open.")
    else:
        _say(f"{'Not used' if done.refreshed else 'Not refreshed'}: {done.why}.")
    if not done.refreshed:
        raise typer.Exit(WAITS)


@app.command()
def status(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Show where an experiment stands."""
    found = _open(db, name).status()
    if as_json:
        _print(found)
        return
    allocation = found.pop("allocation")
    found["arms"], found["active"] = ", ".join(found["arms"]), ", ".join(found["active"])
    _table(name, ["", "value"], [[key.replace("_", " "), value] for key, value in found.items() if key != "name"])
    if allocation:
        _table("allocation", ["arm", "probability"], [[label, p] for label, p in allocation.items()])


@app.command()
def report(
    name: Name,
    figures: Annotated[pathlib.Path | None, typer.Option(help="Also write figures into this folder.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show what is known: posteriors, estimates, checks and a recommendation."""
    experiment = _open(db, name)
    found = experiment.report()
    if figures is not None:
        from ..live.figures import draw

        found["figures"] = [str(path) for path in draw(experiment, figures)]
    if as_json:
        _print(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    title = (
        f"{found['name']}: {found['decisions']} decisions, policy version {found['policy']}, cap on rewards {_cell(found['cap'])}"
    )
    _table(
        title,
        ["arm", "units", "pending", "observed", "defaulted", "missing", "cancelled", "allocation"],
        [
            [a["arm"], a["units"], a["pending"], a["observed"], a["defaulted"], a["missing"], a["cancelled"], a["allocation"]]
            for a in found["arms"]
        ],
    )
    _table(
        "\nmean rewards, 95 % intervals",
        ["arm", "posterior", "P(best)", "expected loss", "naive", "IPW", "AIPW"],
        [
            [
                a["arm"],
                _interval(a["posterior_mean"], a["posterior_low"], a["posterior_high"]),
                a["p_best"],
                a["expected_loss"],
                *(_interval(a[kind]["value"], a[kind]["low"], a[kind]["high"]) for kind in ("naive", "ipw", "aipw")),
            ]
            for a in found["arms"]
        ],
    )
    ratio, gain = found["sample_ratio"], found["value_against_equal"]
    lines = [f"rewards that never came: {_percent(found['missing_feedback_rate'])}; {found['pending']} are pending"]
    if ratio:
        lines.append(f"sample ratio: p = {_cell(ratio['p_value'])}{', ALARM' if ratio['alarm'] else ''}")
    if gain and gain["per_unit"] is not None:
        lines.append(f"against equal allocation: {_interval(gain['per_unit'], gain['low'], gain['high'])} a unit")
    if found["cap"] is not None:
        lines.append(f"{found['capped_rewards']} rewards are above the cap of {found['cap']:g} and count as that much here")
    _say("\n" + "\n".join(lines))
    _say("\n" + found["why_estimates_differ"])
    if found["outside_theory"]:
        _say(f"Outside the theorem: {found['outside_theory']}")
    _say("\n" + found["recommendation"])


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g} [{_cell(low)}, {_cell(high)}]" if low is not None and math.isfinite(low) else f"{value:.3g}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


@app.command()
def export(
    name: Name,
    file: Annotated[pathlib.Path, typer.Argument(help="A .csv or .parquet file.")],
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Write every decision with its propensities and reward."""
    rows = _open(db, name).export(file)
    if as_json:
        _print({"rows": rows, "file": str(file)})
    else:
        _say(f"{rows} decisions in {file}.")


@app.command()
def pause(name: Name, reason: Reason = "", db: Db = None, as_json: AsJson = False) -> None:
    """Hand out no decisions until `resume`; rewards are still accepted."""
    _open(db, name).pause(reason)
    _done(as_json, {"paused": True}, f"{name} is paused.")


@app.command()
def resume(name: Name, reason: Reason = "", db: Db = None, as_json: AsJson = False) -> None:
    """Hand out decisions again."""
    _open(db, name).resume(reason)
    _done(as_json, {"paused": False}, f"{name} goes on.")


@app.command("add-arm")
def add_arm(
    name: Name,
    label: Annotated[str, typer.Argument(help="The new arm.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="A number of the model for this arm, as name=value.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Add an arm from the next decision on."""
    from .simulate import options_of

    version = _open(db, name).add_arm(label, **options_of(set_ or []))
    _done(as_json, {"arm": label, "policy_version": version}, f"{label} is in; policy version {version}.")


@app.command("retire-arm")
def retire_arm(
    name: Name, label: Annotated[str, typer.Argument(help="The arm.")], reason: Reason = "", db: Db = None, as_json: AsJson = False
) -> None:
    """Play an arm no more; what it earned stays."""
    version = _open(db, name).retire_arm(label, reason)
    _done(as_json, {"arm": label, "policy_version": version}, f"{label} is out; policy version {version}.")


@app.command()
def correct(
    name: Name,
    decision_id: Annotated[str, typer.Argument(help="The decision.")],
    reward: Annotated[float, typer.Argument(help="The right reward.")],
    reason: Reason = "",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Replace a reward; the next refresh learns from the new one."""
    changed = _open(db, name).correct(decision_id, reward, reason)
    _done(as_json, {"changed": changed}, "Corrected." if changed else "It stood so already.")


@app.command()
def cancel(
    name: Name,
    decision_ids: Annotated[list[str], typer.Argument(help="Decisions whose unit was never exposed.")],
    reason: Reason = "",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw decisions that nobody was exposed to."""
    changed = _open(db, name).cancel(decision_ids, reason)
    _done(as_json, {"cancelled": changed}, f"{changed} decisions cancelled.")


@app.command()
def audit(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Show everything that was done, in order."""
    found = _open(db, name).audit()
    if as_json:
        _print(found)
        return
    import datetime

    when = lambda at: datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(" ", "seconds")  # noqa: E731
    rows = [[e["position"], when(e["at"]), e["actor"], e["what"], json.dumps(e["detail"], ensure_ascii=False)[:120]] for e in found]
    _table(name, ["position", "at", "actor", "what", "detail"], rows)


@app.command()
def verify(name: Name, db: Db = None, as_json: AsJson = False) -> None:
    """Replay the ledger and compare it, bit for bit, with what is stored."""
    experiment = _open(db, name)
    found = experiment.verify()
    if as_json:
        _print({"verified": not found, "differences": found})
    else:
        _say("The ledger replays to what is stored, bit for bit." if not found else "\n".join(found))
    if found:
        raise typer.Exit(DIFFERS)


@app.command()
def migrate(db: Db = None, as_json: AsJson = False) -> None:
    """Bring a database to this version's schema."""
    _live()
    from ..live.store import Store

    before, after = Store.migrate(db)
    _done(as_json, {"before": before, "after": after}, f"Schema version {after} (it was {before}).")


def _done(as_json: bool, data: dict[str, Any], sentence: str) -> None:
    if as_json:
        _print(data)
    else:
        _say(sentence)
