"""What is wrong with data, before it is known where that stands in a file."""

from dataclasses import dataclass

from kubectl_sky.spec.document import Path


@dataclass(frozen=True)
class Finding:
    """What is wrong at a path; `key` says that the field itself is, not its value."""

    path: Path
    message: str
    hint: str = ""
    key: bool = False
    severity: str = "error"
