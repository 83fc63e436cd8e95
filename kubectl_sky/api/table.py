"""Values that a notebook shows as a table."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from kubectl_sky.words import notebook


class _Row(Protocol):
    @property
    def row(self) -> Mapping[str, object]: ...


T_co = TypeVar("T_co", bound=_Row, covariant=True)


class Table(tuple[T_co, ...]):
    """A tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return notebook.table(item.row for item in self)
