"""The names of the fields that a body or a query may have, for callers who misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import inspect

from ..errors import did_you_mean, shown

_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `(\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[\.\.\.\]|\[\d+\]", re.ASCII)


def sentence(said: str, type_: type) -> str:
    """What msgspec said of a value, as a sentence; of an unknown field with the names of the known ones.

    Args:
        said: the message of a `ValidationError`.
        type_: what the value should have been.

    Returns:
        The sentence.
    """
    found = _UNKNOWN.fullmatch(said)
    if found is None:
        return f"{said.rstrip('.')}."
    name, path = found[1], found[2] or "$"
    known = list(dict.fromkeys(_fields(inspect.type_info(type_), path)))
    where = "" if path == "$" else f" at {path}"
    return f"There is no field {shown(name)}{where}.{did_you_mean(name, known)} Known: {', '.join(known) or 'none'}."


def _fields(info: inspect.Type, path: str) -> Iterator[str]:
    """The fields of the structs at a path, such as `$.rewards[...]`."""
    found = [info]
    for step in _STEP.finditer(path):
        found = [one for before in found for one in _inner(before, step[1])]
    for one in found:
        for option in _options(one):
            if isinstance(option, inspect.StructType):
                yield from (field.encode_name for field in option.fields)


def _inner(info: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """What is inside a type: its field with a name, or its items where there is no name."""
    for option in _options(info):
        if isinstance(option, inspect.StructType):
            yield from (field.type for field in option.fields if field.encode_name == name)
        elif isinstance(option, inspect.ListType) and name is None:
            yield option.item_type
        elif isinstance(option, inspect.DictType):
            yield option.value_type


def _options(info: inspect.Type) -> tuple[inspect.Type, ...]:
    return info.types if isinstance(info, inspect.UnionType) else (info,)
