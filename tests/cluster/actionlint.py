"""Check the workflows by actionlint, built from its Go module."""

import sys
from pathlib import Path

from tests.cluster import golang
from tests.cluster.shell import Broken, Unavailable, run

_MODULE = Path(__file__).parent / "modules" / "actionlint"


def main() -> None:
    """Run actionlint on this checkout; without Go, only say that it did not run."""
    try:
        program = golang.build("actionlint", _MODULE, "github.com/rhysd/actionlint/cmd/actionlint")
        run([program, "-no-color"], folder=Path(__file__).parents[2])
    except Unavailable as problem:
        sys.stderr.write(f"warning: workflows not checked by actionlint: {problem}\n")
    except Broken as problem:
        sys.exit(f"error: actionlint: {problem}")


if __name__ == "__main__":
    main()
