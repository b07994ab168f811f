"""What a study is: conditions, replications and a seed, with a score and its figures. Importing this loads no JAX."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import ConfigError, did_you_mean, whole

Condition = dict[str, Any]
"""A table of names and numbers. In a study as written a value may be a list, which stands for each of its members."""


@dataclasses.dataclass(frozen=True)
class Study:
    """Every combination of its conditions, each run `replications` times on the same seeds.

    >>> from blts.studies import Study
    >>> study = Study("mine", conditions=({"agent": ["blts", "ucb1"], "batching": ["static", "dynamic"]},), replications=100)
    >>> [f"{c['agent']} {c['batching']}" for c in study.expanded()]
    ['blts static', 'blts dynamic', 'ucb1 static', 'ucb1 dynamic']
    """

    name: str
    conditions: tuple[Condition, ...] = ()
    replications: int = 400
    seed: int = 0
    task: str = "simulate"
    """What is done with a condition: `blts study list` names the tasks."""
    block: int = 100
    """Replications of one unit of work, which is one file of results."""
    title: str = ""
    text: str = ""
    """What the study asks, and how: paragraphs for the report. What comes out is computed, by `findings`."""
    chapter: str = ""
    """Studies of one chapter stand together in the report."""
    score: str = "regret"
    """The quantity that the main table and the comparisons are about."""
    metrics: tuple[str, ...] = ()
    """Further quantities to tabulate."""
    figures: tuple[str, ...] = ("curves",)
    rows: str = "agent"
    columns: str = "batching"
    """Which names lead the rows and the columns of the main table."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """Words that the report writes for names."""
    reference: Condition = dataclasses.field(default_factory=dict)
    """The condition that the others are compared with; the first one unless names are given."""
    findings: tuple[Condition, ...] = ()
    """What the report says of the results, each a table that `find`s one thing and is put into words from the data:

    - `find = "difference"`: a metric (the score unless named) of the conditions that match `of` less that of those that match
      `than` and are otherwise alike. With `expect` ("same", "higher", "lower", "no higher" or "no lower") it says whether a `claim`
      is borne out or contradicted. "same", "no higher" and "no lower" are shown by an interval within the `margin`, the largest
      difference that does not matter: a number such as 2.0, or a share of the reference's mean such as "5%".
    - `find = "printed"`: how many published numbers of a `metric` agree, and which do not.
    - `find = "growth"`: whether "regret" or "batches", the `metric`, grow no faster with T than `claims` has it.
    - `find = "bound"`: whether any run closes more batches than the theorem's N log₂(T + 1).
    - `find = "runs"`: which published means of whole numbers cannot be means of as many runs as are stated.

    `among` limits a finding to the conditions that match it, `first = 1` puts it first on the report's first page.
    """
    claims: dict[str, str] = dataclasses.field(default_factory=dict)
    """How "regret" and "batches" are claimed to grow, such as O(log T), where conditions are not methods with their own claims."""
    printed: tuple[Condition, ...] = ()
    """Published numbers to show beside ours: tables of names with metric, mean, sd and n."""
    code: str = ""
    """A digest of the user's own file, where a study comes from one that defines agents or environments."""
    source: str = ""
    """That file."""
    version: str = ""
    """A digest of the code that computes; written when a study is run, so that its results are found by later code too."""

    def __post_init__(self):
        for field, least in {"replications": 2, "block": 1, "seed": 0}.items():
            whole(field, getattr(self, field), least)
        for field in ("name", "task", "title", "text", "chapter", "score", "rows", "columns"):
            if not isinstance(getattr(self, field), str):
                raise ConfigError(f"{field} must be text; got {getattr(self, field)!r}.")
        if not self.name or any(c not in NAME_CHARACTERS for c in self.name):
            raise ConfigError(
                f"A study's name has letters, digits, '-' and '_' only, because files are named after it; got {self.name!r}."
            )
        for field in ("figures", "metrics"):
            value = getattr(self, field)
            if not isinstance(value, list | tuple) or not all(isinstance(x, str) for x in value):
                raise ConfigError(f"{field} must be a list of names; got {value!r}.")
            object.__setattr__(self, field, tuple(value))
        for field in ("conditions", "printed", "findings"):
            value = getattr(self, field)
            if not isinstance(value, list | tuple) or not all(isinstance(x, dict) for x in value):
                raise ConfigError(f"{field} must be a list of tables, [[{field}]] in TOML; got {value!r}.")
            object.__setattr__(self, field, tuple(value))
        for field in ("labels", "reference", "claims"):
            if not isinstance(getattr(self, field), dict):
                raise ConfigError(f"{field} must be a table; got {getattr(self, field)!r}.")
        for field in ("conditions", "printed", "findings", "labels", "reference", "claims"):
            try:
                json.dumps(getattr(self, field))
            except (TypeError, ValueError) as error:
                raise ConfigError(f"{field} must hold text, numbers, true, false and lists of them ({error}).") from None
        for finding in self.findings:
            _check_finding(finding)
        if not self.conditions:
            raise ConfigError('A study needs conditions: at least one [[conditions]] table, such as agent = "blts".')

    def expanded(self) -> list[Condition]:
        """Every combination of the values that are lists, in the order written."""
        return [combination for table in self.conditions for combination in _product(table)]

    def scaled(self, factor: float) -> Study:
        """The same with more or fewer replications, at least 2."""
        return dataclasses.replace(self, replications=max(2, round(self.replications * factor)))

    def cells(self) -> Iterator[Cell]:
        """The units of work. A longer study of the same seed begins with the same full blocks."""
        for condition in self.conditions:
            for first in range(0, self.replications, self.block):
                size = min(self.block, self.replications - first)
                yield Cell(self.task, condition, self.seed, first, size, self.code, self.version, self.source)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Study:
        check_fields(fields)
        return Study(**fields)


class Cell(NamedTuple):
    """A block of replications of one condition."""

    task: str
    condition: Condition
    seed: int
    first: int
    replications: int
    code: str = ""
    version: str = ""
    source: str = ""

    def address(self) -> str:
        """Where its results are kept: a digest of everything that decides them."""
        content = self._asdict()
        del content["source"]
        return hashlib.sha256(canonical(content).encode()).hexdigest()[:32]

    def is_described_by(self, written: dict[str, Any]) -> bool:
        """Whether this is the cell that a file of results says it has; fields that an earlier version did not write say nothing."""
        content = self._asdict()
        return canonical(written) == canonical({name: content.get(name) for name in written})

    def __str__(self) -> str:
        words = " ".join(str(v) for k, v in self.condition.items() if k in NAMES)
        return f"{words or self.task} {self.first}–{self.first + self.replications - 1}"


NAMES = ("env", "agent", "batching", "prior")
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
FIELDS = tuple(field.name for field in dataclasses.fields(Study))


def check_fields(fields: dict[str, Any]) -> None:
    for field in fields:
        if field not in FIELDS:
            raise UnknownField(field, FIELDS)


class UnknownField(ConfigError):
    def __init__(self, field: str, known: tuple[str, ...]):
        self.field = field
        super().__init__(f"A study has no field {field!r}.{did_you_mean(field, known)} Fields: {', '.join(known)}.")


def canonical(content: Any) -> str:
    """One text for one content."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


FINDS = {
    "difference": ("of", "than", "metric", "claim", "expect", "margin", "among", "first"),
    "printed": ("metric", "claim", "among", "first"),
    "growth": ("metric", "claim", "among", "first"),
    "bound": ("claim", "among", "first"),
    "runs": (),
}
"""What a finding can be about, and the names of its table."""
EXPECTED = ("same", "higher", "lower", "no higher", "no lower")
WITH_MARGIN = ("same", "no higher", "no lower")


def _check_finding(finding: Condition) -> None:
    find, words = finding.get("find"), 'such as { find = "difference", of = { agent = "blts" }, than = { agent = "exact-ts" } }'
    if find not in FINDS:
        raise ConfigError(f"findings must be tables that find one of {', '.join(FINDS)}, {words}; got {finding!r}.")
    for name in finding:
        if name not in ("find", *FINDS[find]):
            raise ConfigError(f"findings: a {find!r} has no {name!r}; it takes {', '.join(FINDS[find]) or 'nothing else'}.")
    if not isinstance(finding.get("among", {}), dict):
        raise ConfigError(f"findings: among must be a table of names and values; got {finding['among']!r}.")
    if "first" in finding:
        whole("findings: first", finding["first"], 1)
    if find in ("growth", "bound") and not isinstance(finding.get("claim"), str):
        raise ConfigError(f"findings: a {find!r} needs the claim that it is about; got {finding!r}.")
    if find != "difference":
        return
    if not (isinstance(finding.get("of"), dict) and isinstance(finding.get("than"), dict) and finding["than"]):
        raise ConfigError(f"findings: a 'difference' needs the tables of and than, {words}; got {finding!r}.")
    if finding.get("expect", EXPECTED[0]) not in EXPECTED:
        near = did_you_mean(finding["expect"], EXPECTED)
        raise ConfigError(f"findings: expect must be one of {', '.join(EXPECTED)}; got {finding['expect']!r}.{near}")
    if ("claim" in finding) != ("expect" in finding):
        has, lacks = ("claim", "expect") if "claim" in finding else ("expect", "claim")
        raise ConfigError(
            f"findings: a claim needs expect, one of {', '.join(EXPECTED)}, and expect a claim; "
            f"the one with {has} = {finding[has]!r} has no {lacks}."
        )
    if "margin" in finding:
        if finding.get("expect") not in WITH_MARGIN:
            raise ConfigError(
                f"findings: a margin goes with expect, one of {', '.join(WITH_MARGIN)}; got {finding.get('expect')!r}."
            )
        margin_of(finding["margin"])


def margin_of(margin: object) -> tuple[float, bool]:
    """The margin of a finding, and whether it is a share of the reference's mean; 0 where there is none.

    >>> from blts.studies.spec import margin_of
    >>> margin_of(2), margin_of("5%"), margin_of(None)
    ((2.0, False), (0.05, True), (0.0, False))
    """
    if margin is None:
        return 0.0, False
    text = margin.strip() if isinstance(margin, str) else ""
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(margin if isinstance(margin, int | float) else "")
    except ValueError:
        number = -1.0
    if isinstance(margin, bool) or not 0 < number < float("inf"):
        raise ConfigError(f'findings: margin must be a number > 0 such as 2.0, or a share such as "5%"; got {margin!r}.')
    return number, text.endswith("%")


def _product(table: Condition) -> Iterator[Condition]:
    choices = [value if isinstance(value, list | tuple) else [value] for value in table.values()]
    for values in itertools.product(*choices):
        yield dict(zip(table, values, strict=True))
