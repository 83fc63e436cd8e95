"""Print the changelog of a version, as the text of its release.

Usage: release_notes.py VERSION
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """Return the section of a version, without its heading."""
    for section in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if heading.strip() == version and body.strip():
            return body.strip()
    raise SystemExit(f'error: version "{version}" not found in CHANGELOG.md')


if __name__ == "__main__":
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]) + "\n")
