"""Check the workflows by actionlint, built from its Go module."""

import sys
from pathlib import Path

from tests.cluster import golang
from tests.cluster.shell import Broken, Unavailable, run

_MODULE = Path(__file__).parent / "modules" / "actionlint"


def main() -> None:
    """Run actionlint on this checkout. Raises Unavailable, Broken."""
    program = golang.build("actionlint", _MODULE, "github.com/rhysd/actionlint/cmd/actionlint")
    run([program, "-no-color"], folder=Path(__file__).parents[2])


if __name__ == "__main__":
    try:
        main()
    except (Unavailable, Broken) as problem:
        sys.exit(f"actionlint: {problem}")
