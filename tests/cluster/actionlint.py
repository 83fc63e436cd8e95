"""Check the workflows by actionlint, built from its Go module."""

import sys
from pathlib import Path

from tests.cluster import programs
from tests.cluster.shell import Broken, Unavailable, run


def main() -> None:
    """Run actionlint on this checkout; without Go, only say that it did not run."""
    try:
        program = programs.path("actionlint")
        run([program, "-no-color"], folder=Path(__file__).parents[2])
    except Unavailable as problem:
        sys.stderr.write(f"warning: workflows not checked by actionlint: {problem}\n")
    except Broken as problem:
        sys.exit(f"error: actionlint: {problem}")


if __name__ == "__main__":
    main()
