"""The files of this package that are no modules."""

from pathlib import Path

_PACKAGE = Path(__file__).parent

TEMPLATES = _PACKAGE / "templates"
RUNTIME = _PACKAGE / "runtime"  # scripts that pods run
