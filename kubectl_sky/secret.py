"""The type of a secret's value: it goes into Secret objects, and nowhere else."""

from typing import Self

REDACTED = "REDACTED"


class Secret:
    """A value that only a Secret object may hold, with the field that it comes from.

    It is no text: a type checker refuses it where text is expected, what is formatted from it says
    REDACTED, JSON and YAML writers raise, and the template engine lets it into Secrets only.
    """

    __slots__ = ("_data", "origin")

    def __init__(self, value: str | bytes, origin: str = "") -> None:
        self._data = value.encode() if isinstance(value, str) else value
        self.origin = origin

    def traced(self, origin: str) -> Self:
        """Return the same value with an origin."""
        return type(self)(self._data, origin)

    def __str__(self) -> str:
        """Show no value."""
        return REDACTED

    __repr__ = __str__

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        """Compare values, whatever their origins."""
        return isinstance(other, Secret) and self._data == other._data

    def __hash__(self) -> int:
        """Two equal values have one hash."""
        return hash(self._data)


def reveal(secret: Secret) -> bytes:
    """Return the value; every use of this function is a place where a secret can leak."""
    return secret._data
