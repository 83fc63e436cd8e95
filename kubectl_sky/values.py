"""Frozen dataclasses that are quick to define: a start defines a hundred, and uses few of them.

The standard decorator writes six methods for each class and compiles them, which takes 0.6 ms.
Here all classes share a few functions, which takes a tenth of that.
"""

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from dataclasses import asdict as asdict
from dataclasses import field as field
from dataclasses import fields as fields
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # classes and their use are checked as the standard decorator's
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def replace(value: Any, **changes: object) -> Any:  # noqa: ANN401 -- any value
        """Return a value with some fields changed, as `dataclasses.replace` does."""
        known, names = vars(value), value.__dataclass_fields__
        if len(known) != len(names):  # a cached property is no field
            known = {name: known[name] for name in names}
        if not known.keys() >= changes.keys():
            return type(value)(**known | changes)  # which says what is wrong
        changed = object.__new__(type(value))
        object.__setattr__(changed, "__dict__", known | changes)
        return changed

    def dataclass(*, frozen: bool, order: bool = False) -> Callable[[type], type]:
        """Make a class of values, as `dataclasses.dataclass(frozen=True)` does."""
        assert frozen, "a value does not change"
        return lambda cls: _with_methods(cls, _ORDER if order else _EQUAL)


_EQUAL = ("eq",)
_ORDER = ("eq", "lt", "le", "gt", "ge")


def _with_methods(cls: type, comparisons: tuple[str, ...]) -> type:
    """Give a class its methods; those that it has itself stay."""
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    key = _key([one.name for one in fields(cls) if one.compare])
    methods: dict[str, Callable[..., Any]] = {
        "__init__": _initialiser(cls),
        "__repr__": _repr,
        "__hash__": lambda self: hash(key(self)),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
        **{f"__{name}__": _comparison(key, name) for name in comparisons},
    }
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return cls


def _key(names: list[str]) -> Callable[[object], Any]:
    """Return what gives the fields by which two objects are compared."""
    return operator.attrgetter(*names) if names else lambda self: ()


def _comparison(key: Callable[[object], Any], name: str) -> Callable[[object, object], bool]:
    compare = getattr(operator, name)

    def method(self: object, other: object) -> bool:
        return compare(key(self), key(other)) if type(self) is type(other) else NotImplemented

    return method


def _initialiser(cls: Any) -> Callable[..., None]:  # noqa: ANN401 -- any class of values
    names = tuple(one.name for one in fields(cls))
    defaults = {one.name: one.default for one in fields(cls) if one.default is not MISSING}
    made = {
        one.name: one.default_factory for one in fields(cls) if one.default_factory is not MISSING
    }
    known, write = frozenset(names), object.__setattr__

    def __init__(self: object, *args: object, **named: object) -> None:  # noqa: N807
        given = dict(zip(names, args, strict=False)) if args else {}
        values = {**defaults, **given, **named}
        for name in made.keys() - values.keys() if made else ():
            values[name] = made[name]()
        if len(values) != len(names) or len(args) > len(names) or not known.issuperset(values):
            raise TypeError(f"{cls.__name__} takes {', '.join(names)}")
        write(self, "__dict__", values)  # at once: a field at a time takes thrice as long

    return __init__


def _repr(self: Any) -> str:  # noqa: ANN401 -- any value
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name} of a {type(self).__name__}")
