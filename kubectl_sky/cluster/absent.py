"""Which kinds a cluster did not serve a short while ago, so that they are not asked for each time.

A file a kind, whose time is when it was found absent: as kubectl keeps what clusters serve, but for
minutes, and only what can be found out to be wrong.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from time import time

from kubectl_sky import settings
from kubectl_sky.kinds import Kind

_SECONDS = 600.0


def note(server: str, kind: Kind) -> None:
    """Remember that a server does not serve a kind."""
    file = _file(server, kind)
    with suppress(OSError):  # a home that cannot be written to costs a request more, and no list
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def forget(server: str, kind: Kind) -> None:
    """Note that a server does serve a kind."""
    with suppress(OSError):
        _file(server, kind).unlink(missing_ok=True)


def noted(server: str, kind: Kind) -> bool:
    """Say whether a kind was absent within the last ten minutes."""
    try:
        age = time() - _file(server, kind).stat().st_mtime
    except OSError:
        return False
    return 0 <= age < _SECONDS


def _file(server: str, kind: Kind) -> Path:
    key = hashlib.sha256(server.encode()).hexdigest()[:16]
    return settings.cache_folder() / "absent" / key / f"{kind.plural}.{kind.group}"
