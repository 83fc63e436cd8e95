"""The type of secret values: they go into Secret objects and nowhere else."""

from typing import Self

REDACTED = "REDACTED"


class Secret:
    """A value that only a Secret object may contain, with the field it comes from.

    It is not a string: a type checker rejects it where a string is expected. Formatting it gives
    REDACTED, JSON and YAML writers raise, and the template engine allows it only in Secrets.
    """

    __slots__ = ("_data", "origin")

    def __init__(self, value: str | bytes, origin: str = "") -> None:
        self._data = value.encode() if isinstance(value, str) else value
        self.origin = origin

    def traced(self, origin: str) -> Self:
        return type(self)(self._data, origin)

    def __str__(self) -> str:
        return REDACTED

    __repr__ = __str__

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        """Compare values; origins are ignored."""
        return isinstance(other, Secret) and self._data == other._data

    def __hash__(self) -> int:
        """Hash the value; the origin is ignored."""
        return hash(self._data)


def reveal(secret: Secret) -> bytes:
    """Return the value; a secret can leak wherever this function is called."""
    return secret._data
