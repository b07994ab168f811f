"""The glossary of DESIGN.md as Sphinx's, so that every word has an address."""

from __future__ import annotations

import pathlib
import re

ROW = re.compile(r"^\| (?P<word>[^|]+?) +\|(?P<also>[^|]*)\| (?P<meaning>.+?) +\|$", re.MULTILINE)


def page(root: pathlib.Path) -> str:
    """Every row of the table, as a term and what it means.

    Args:
        root: of the repository.

    Returns:
        A directive in Markdown.
    """
    table = (root / "DESIGN.md").read_text(encoding="utf-8").partition("\n## Glossary\n")[2].partition("\n## ")[0]
    rows = [row for row in ROW.finditer(table) if row["word"] != "word"]
    terms = []
    for row in sorted(rows, key=lambda row: row["word"].strip("`").lower()):
        also = f" *Also written:* {row['also'].strip()}." if row["also"].strip() else ""
        terms.append(f"{row['word'].replace('`', '')}\n  {row['meaning'][0].upper()}{row['meaning'][1:]}.{also}\n")
    return ":::{glossary}\n" + "\n".join(terms) + ":::"
