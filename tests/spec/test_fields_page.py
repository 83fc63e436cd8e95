"""docs/task-file.md names only fields that exist and are supported; `explain` has all others."""

import re
from collections.abc import Iterator
from pathlib import Path

from kubectl_sky.spec.explain import explain

FIELDS = Path(__file__).parents[2] / "docs" / "task-file.md"
TABLE = re.compile(r"\| `([\w.*]+)`[^|]*\|[^|\n]*\|\n\|---\|---\|\n((?:\|.*\n)+)")
FIELD = re.compile(r"`([\w.*]+)[^`]*`")


def fields() -> Iterator[str]:
    """Yield the fields of the tables."""
    for prefix, rows in TABLE.findall(FIELDS.read_text(encoding="utf-8")):
        above = "" if prefix == "task" else f"{prefix}."
        for row in rows.splitlines():
            cell = row.removeprefix("| ").partition(" | ")[0]
            names = FIELD.findall(re.sub(r"\(.*?\)", "", cell))
            assert names, f"no field: {row}"
            yield from (above + name for name in names)


def test_docs_task_file_names_only_supported_fields() -> None:
    names = list(fields())
    assert len(names) > 25
    unsupported = (name for name in names if explain(name).skypilot.startswith("Not supported"))
    assert set(unsupported) <= {"service", "pool"}  # with --as-task
