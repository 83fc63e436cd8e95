"""rclone, which copies buckets, built from its Go module; it serves a store of buckets, too."""

from pathlib import Path

from tests.cluster import golang

_MODULE = Path(__file__).parent / "modules" / "rclone"


def program() -> Path:
    """Return the program, built when the cache has it not. Raises Unavailable, Broken."""
    return golang.build("rclone", _MODULE, "github.com/rclone/rclone")
