"""`@module`: frozen dataclasses that are pytrees, check themselves once, print well and turn into JSON.

Numbers are traced leaves, so three step sizes cost one compilation; shapes and counts are marked `static()`. The base classes of
parts (`Agent`, `Env`, …) are `Contract`s, whose subclasses are modules without being decorated.
JAX's own `register_dataclass` calls `__post_init__` with tracers on every unflatten; here unflattening only fills
the fields, so `check()` sees just what a person wrote.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Iterator
from numbers import Integral
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer

from .declared import is_base, mark_lost, methods_of, missing, why_lost
from .errors import ConfigError, UnknownName, require_object, shown, whole

T = TypeVar("T")
_CLASSES: dict[str, type] = {}
"""Every module by its name in JSON."""
_NAMES: dict[type, str] = {}


def array(
    default: Any = dataclasses.MISSING,
    *,
    ndim: int = 0,
    dtype: type = float,
    words: tuple[str, ...] = (),
    or_number: bool = False,
) -> Any:
    """A field that is a number or an array: a traced leaf, so that another value does not compile again.

    A number, a list or a NumPy array may be given; it is kept as a NumPy array of `dtype`.

    Args:
        default: its value where none is given; without one the field is required.
        ndim: its rank. In a model, that for one arm: one more axis in front then means one value for each arm.
        dtype: `float`, `int` or `bool`.
        words: text that may be given in place of a number.
        or_number: whether one number may stand for all entries of a vector; the rank is then that of the vector.

    Returns:
        What stands on the right of a field: `step_size: Any = array(default=0.1)`.

    >>> from blts import array, module
    >>> @module
    ... class Prior:
    ...     sd: float = array(default=1.0)
    >>> Prior([1, 2]).sd
    array([1., 2.])
    """
    return dataclasses.field(default=default, metadata={"ndim": ndim, "dtype": dtype, "words": words, "or_number": or_number})


def static(default: Any = dataclasses.MISSING) -> Any:
    """A field that is a count, a shape or a function: part of what is compiled, so another value compiles again.

    Fields that are annotated `int` are static without this.

    Args:
        default: its value where none is given; without one the field is required.

    Returns:
        What stands on the right of a field: `size: int = static(default=32)`.

    >>> from blts import module, static
    >>> @module
    ... class Window:
    ...     size: int = static(default=32)
    >>> Window(8)
    Window(size=8)
    """
    return dataclasses.field(default=default, metadata={"static": True})


def is_static(field: dataclasses.Field, value: Any) -> bool:
    """Strings, flags, None and plain functions are never leaves, whatever the field."""
    if field.metadata.get("static") or value is None or isinstance(value, str | bool):
        return True
    return callable(value) and type(value) not in _NAMES


def is_concrete(value: Any) -> bool:
    return not isinstance(value, Tracer)


@dataclass_transform(frozen_default=True, field_specifiers=(array, static))
def module(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass that is a pytree, so that its objects can be given to compiled functions.

    Its annotated fields are its arguments: `array()` and numbers are traced leaves, `static()`, `int`, text, flags and functions
    are part of what is compiled. A method `check(self)` is run once, when a person builds the object, and may refuse it with
    `ConfigError`; it is not run where JAX traces, and may branch on numbers. Subclasses of a module, and of the base classes
    `Agent`, `Env`, …, are modules without being decorated.

    Args:
        cls: the class.

    Returns:
        The same class.

    >>> import jax
    >>> from blts import array, module
    >>> @module
    ... class Line:
    ...     slope: float = array(default=1.0)
    ...     power: int = 1
    >>> Line(2.0), jax.tree.leaves(Line(2.0))
    (Line(slope=2, power=1), [array(2.)])
    """
    if cls in _NAMES:
        return cls
    _prepare_fields(cls)
    cls = dataclasses.dataclass(frozen=True, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    plain = _plain_numbers(cls, fields)
    generated_init = cls.__init__

    @functools.wraps(generated_init)  # with its signature
    def __init__(self, *args, **kwargs):
        try:
            generated_init(self, *args, **kwargs)
        except TypeError as error:
            said = str(error).replace("__init__() ", "").replace(cls.__name__ + ".", "")
            raise ConfigError(f"{cls.__name__}: {said}.{_takes(cls, fields) if 'unexpected keyword' in said else ''}") from None
        for field in fields:
            if "dtype" in field.metadata:
                object.__setattr__(self, field.name, _number(cls, field, getattr(self, field.name)))
        for field, kind in plain.items():
            _refuse_other(cls, field, kind, getattr(self, field.name))
        if hasattr(cls, "check"):
            _check(self, fields)

    def flatten(self):
        values = {field.name: getattr(self, field.name) for field in fields}
        names = tuple(field.name for field in fields if not is_static(field, values[field.name]))
        aux = tuple((name, value) for name, value in values.items() if name not in names)
        return tuple((jax.tree_util.GetAttrKey(name), values[name]) for name in names), (names, aux)

    def unflatten(aux, leaves):
        self = object.__new__(cls)
        for name, value in (*zip(aux[0], leaves, strict=True), *aux[1]):
            object.__setattr__(self, name, value)
        return self

    setattr(cls, "__init__", __init__)  # noqa: B010
    if cls.__repr__ is object.__repr__:
        setattr(cls, "__repr__", _repr)  # noqa: B010
    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    if not issubclass(cls, Contract) and not any(base in _NAMES for base in cls.__mro__[1:]):
        inherited = cls.__init_subclass__

        def __init_subclass__(sub, **kwargs):
            inherited(**kwargs)
            module(sub)

        setattr(cls, "__init_subclass__", classmethod(__init_subclass__))  # noqa: B010
    mark_lost(cls)
    taken = _CLASSES.get(cls.__name__)
    again = taken is not None and (taken.__module__, taken.__qualname__) == (cls.__module__, cls.__qualname__)  # as in a notebook
    name = cls.__name__ if taken is None or again else f"{cls.__module__}.{cls.__qualname__}"
    _CLASSES[name], _NAMES[cls] = cls, name
    return cls


def _prepare_fields(cls: type) -> None:
    """Mark fields that are annotated `int` as static, and keep those that a base class has a default for from taking it."""
    for name, kind in inspect.get_annotations(cls).items():
        default = vars(cls).get(name, dataclasses.MISSING)
        if kind in (int, "int") and not isinstance(default, dataclasses.Field):
            setattr(cls, name, static(default))
            continue
        has_default = any(name in vars(c) for c in cls.__mro__[1:] if is_base(c))
        if default is dataclasses.MISSING and has_default and "ClassVar" not in str(kind):
            setattr(cls, name, dataclasses.field())


@dataclass_transform(frozen_default=True, field_specifiers=(array, static))
class Contract:
    """The root of the base classes of parts. Its direct subclasses say what a part must and may define, and what is the default;
    theirs are modules (see `module`) without being decorated."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Contract in cls.__bases__:
            cls._is_base = True  # type: ignore[attr-defined]
        module(cls)


def require_part(where: str, value: Any, base: type, example: str, names: str = "") -> None:
    """Refuse a name, a class, an object that lacks required methods, and one of a class that does not inherit from `base`.

    Args:
        where: what is being given, the subject of the sentence.
        base: the base class.
        example: how such an object is written.
        names: what to do with a name, where there is something that takes names.

    Raises:
        ConfigError: what is wrong with it, and what to write.
    """
    require_object(where, value, () if isinstance(value, base) else methods_of(base), example, names)
    name, kind = type(value).__name__, base.__name__
    if not isinstance(value, base):
        raise ConfigError(f"{where} must be an object of a subclass of {kind}: write class {name}(blts.{kind}).")
    lacking = missing(value, base)
    if lacking:
        why = why_lost(value, lacking[0])
        raise ConfigError(why or f"{name} must define {', '.join(lacking)}, as every {kind} does: see help(blts.{kind}).")


def parts_within(value: Any) -> Iterator[Any]:
    """A part, and every part that it holds in its fields, however deep: whatever an agent, a belief or an environment wraps.

    Args:
        value: a part.

    Yields:
        The part itself first.
    """
    yield value
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    held = [getattr(value, field.name) for field in fields]
    for each in held:
        if isinstance(each, tuple | list):
            held.extend(each)
        elif isinstance(each, Contract):
            yield from parts_within(each)


def _is_ours(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] == "blts"


def _check(self: Any, fields: tuple[dataclasses.Field, ...]) -> None:
    """Run `check`. With traced numbers one of somebody's own gives way to that of the base from blts, which lets them through."""
    check = type(self).check
    if not _is_ours(check) and any(_is_traced(field, getattr(self, field.name)) for field in fields):
        checks = (vars(base).get("check") for base in type(self).__mro__)
        check = next((each for each in checks if each is not None and _is_ours(each)), None)
    if check is not None:
        check(self)


def _is_traced(field: dataclasses.Field, value: Any) -> bool:
    return not is_static(field, value) and not all(map(is_concrete, jax.tree.leaves(value)))


def _plain_numbers(cls: type, fields: tuple[dataclasses.Field, ...]) -> dict[dataclasses.Field, type]:
    """The fields of somebody's own that are annotated `int` or `float` and are no arrays. Classes of blts check theirs."""
    found = {}
    for field in fields:
        owner = next(base for base in reversed(cls.__mro__) if vars(base).get("__dataclass_fields__", {}).get(field.name) is field)
        for kind in (int, float):
            if field.type in (kind, kind.__name__) and "dtype" not in field.metadata and not _is_ours(owner):
                found[field] = kind
    return found


def _refuse_other(cls: type, field: dataclasses.Field, kind: type, value: Any) -> None:
    """Refuse what is no whole number where a field is annotated `int`, and text where it is annotated `float`."""
    if (value is None and field.default is None) or not is_concrete(value):
        return
    if kind is int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise ConfigError(f"{cls.__name__}: {field.name} must be a whole number; got {shown(value)}.")
    if kind is float and isinstance(value, str) and not isinstance(field.default, str):
        raise ConfigError(f"{cls.__name__}: {field.name} must be a number or an array of numbers; got {shown(value)}.")


def _takes(cls: type, fields: tuple[dataclasses.Field, ...]) -> str:
    """The names that a constructor takes, and that of its other constructor where it has one by sd."""
    names = ", ".join(field.name for field in fields if field.init) or "nothing"
    return f" It takes {names}{'; or use with_sd(sd=…)' if hasattr(cls, 'with_sd') else ''}."


def _number(cls: type, field: dataclasses.Field, value: Any) -> Any:
    if isinstance(value, str | bool) or (value is None and field.default is not None):
        words = field.metadata["words"]
        if value in words:
            return value
        kinds = " or ".join(["a number or an array of numbers", *map(repr, words)])
        raise ConfigError(f"{cls.__name__}: {field.name} must be {kinds}; got {value!r}.")
    if is_static(field, value) or isinstance(value, jax.Array) or not is_concrete(value):
        return value
    try:
        # NumPy, not JAX: building an object allocates nothing on a device; JAX narrows it to its own precision in use.
        number = np.asarray(value, field.metadata["dtype"])
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{cls.__name__}: {field.name} must be a number or an array of numbers; got {shown(value)}.") from None
    if number.dtype == bool and (other := np.asarray(value, object) != number).any():  # a 0.3 or "False" would be True
        entry = np.asarray(value)[other].tolist()[0]
        raise ConfigError(f"{cls.__name__}: {field.name} must be True or False, or 1 or 0, in each entry; got {entry!r}.")
    if number.dtype.kind == "i" and (other := np.asarray(value, float) != number).any():  # 2.7 would be 2
        entry = np.asarray(value)[other].tolist()[0]
        raise ConfigError(f"{cls.__name__}: {field.name} must be a whole number in each entry; got {entry!r}.")
    if np.isnan(number).any():
        where = f"; it is at {np.argwhere(np.isnan(number))[0].tolist()}" if number.ndim else ""
        raise ConfigError(f"{cls.__name__}: {field.name} must not be NaN; got {short(number)}{where}.")
    largest = float(np.finfo(jax.dtypes.canonicalize_dtype(float)).max)
    if (np.isfinite(number) & (np.abs(number) > largest)).any():
        raise ConfigError(f"{cls.__name__}: {field.name} must be at most {largest:.3g}, the largest number that JAX holds here.")
    return number


def require(owner: Any, holds: Any, sentence: str) -> None:
    """Refuse an object whose concrete numbers do not satisfy a condition; traced ones are let through."""
    if is_concrete(holds) and not np.all(np.asarray(holds)):
        raise ConfigError(f"{type(owner).__name__}: {sentence}")


def positive(owner: Any, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, str):
            ok = (value > 0) & (value < np.inf) if is_concrete(value) else True
            require(owner, ok, f"{name} must be > 0 and finite; got {short(value)}.")


def finite(owner: Any, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        require(owner, np.isfinite(value) if is_concrete(value) else True, f"{name} must be finite; got {short(value)}.")


def at_least(owner: Any, name: str, least: int) -> None:
    what = f"{type(owner).__name__}: {name}"
    if not is_concrete(getattr(owner, name)):
        return
    value = whole(what, getattr(owner, name), least)
    if value > np.iinfo(np.int32).max:
        raise ConfigError(f"{what} must be at most {np.iinfo(np.int32).max}; got {value}.")


def short(value: Any) -> str:
    """An array in a few characters: `[14, 14.4, …, 20] (15)`."""
    if not is_concrete(value):
        return "traced"
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return repr(value)
    if callable(value) and not dataclasses.is_dataclass(value):
        return getattr(value, "__name__", type(value).__name__)
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        items = (f"{name}={short(item)}" for name, item in zip(names, value, strict=True))
        return f"{type(value).__name__}({', '.join(items)})"
    if not isinstance(value, np.ndarray | np.generic | jax.Array | float | int):
        return repr(value)
    numbers = np.asarray(value)
    if numbers.ndim == 0:
        return f"{numbers.item():.4g}" if numbers.dtype.kind == "f" else str(numbers.item())
    if numbers.size > 1 and (numbers == numbers.flat[0]).all():
        return f"{numbers.flat[0]:.4g} (×{'×'.join(map(str, numbers.shape))})"
    if numbers.ndim == 1 and numbers.size <= 4:
        return "[" + ", ".join(f"{x:.4g}" for x in numbers) + "]"
    if numbers.size <= 4:
        return str(numbers.tolist())
    ends = numbers.reshape(-1)
    return f"[{ends[0]:.4g}, {ends[1]:.4g}, …, {ends[-1]:.4g}] ({'×'.join(map(str, numbers.shape))})"


def _repr(self) -> str:
    parts = (f"{field.name}={short(getattr(self, field.name))}" for field in dataclasses.fields(self))
    return f"{type(self).__name__}({', '.join(parts)})"


def to_json(value: Any) -> str:
    """The JSON text of a configuration; `from_json` gives the same object back.

    Args:
        value: a model, agent, sampler, batching scheme or environment that is made of numbers and named parts.

    Returns:
        The text.

    Raises:
        ConfigError: a part of it is a function, which JSON cannot hold.

    >>> from blts.batching import Fixed
    >>> to_json(Fixed(10))
    '{"type": "Fixed", "size": 10}'
    """
    return json.dumps(_encode(value))


def from_json(text: str) -> Any:
    """The object that `to_json` wrote.

    Args:
        text: what `to_json` returned.

    Returns:
        An object that equals the one that was written.

    Raises:
        ConfigError: the text is not of that form.

    >>> from blts import UCB1, from_json, to_json
    >>> from_json(to_json(UCB1(3)))
    UCB1(actions=3, scale=1)
    """
    if not isinstance(text, str | bytes | bytearray):
        raise ConfigError(f"from_json takes the text that to_json wrote; got a {type(text).__name__}.")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"This is not JSON ({error}); give the text that to_json wrote.") from None
    return _decode(data)


def _encode(value: Any) -> Any:
    if type(value) in _NAMES:
        return {"type": _NAMES[type(value)]} | {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, dict):
        return {"type": "dict", "items": {name: _encode(item) for name, item in value.items()}}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ConfigError(f"A {type(value).__name__} cannot be written as JSON; pickle the object, or build it from named parts.")


def _decode(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_decode(item) for item in data)
    if not isinstance(data, dict):
        return data
    if not isinstance(data.get("type"), str):
        raise ConfigError(f'This JSON has no "type" that says what it describes ({short(data)}); give the text that to_json wrote.')
    if data["type"] == "dict":
        return {name: _decode(item) for name, item in data["items"].items()}
    if data["type"] not in _CLASSES:
        raise UnknownName("configuration type", data["type"], _CLASSES)
    return _CLASSES[data["type"]](**{name: _decode(item) for name, item in data.items() if name != "type"})
