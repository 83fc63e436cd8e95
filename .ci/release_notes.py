"""Print the changelog of a version, as the text of its release."""

import argparse
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", metavar="VERSION")
    version = parser.parse_args().version
    sys.stdout.write(notes(CHANGELOG.read_text(encoding="utf-8"), version) + "\n")
