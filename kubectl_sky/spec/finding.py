"""An error in data, before its position in a file is known."""

from dataclasses import dataclass

from kubectl_sky.spec.document import Path


@dataclass(frozen=True)
class Finding:
    """An error at a path; `key` is set if the field itself is wrong, not its value."""

    path: Path
    message: str
    hint: str = ""
    key: bool = False
    severity: str = "error"
