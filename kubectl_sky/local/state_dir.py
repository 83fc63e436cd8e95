"""The state folder of the local cluster: its record, its kubeconfig and its lock."""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import asdict, replace

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.words import private, settings
from kubectl_sky.words.private import Folder


class Record(Struct, frozen=True):
    """The record of the local cluster, running or stopped.

    `used_in` is the user's kubeconfig that has its context, and `before` is the context that was
    current in it before.
    """

    driver: str
    nodes: int
    gpus: str | None = None
    up: bool = False
    used_in: str | None = None
    before: str | None = None


class StateDir(Struct, frozen=True):
    """The state folder and the files in it."""

    folder: Path

    @classmethod
    def find(cls) -> Self:
        return cls(settings.state_folder().absolute() / "local")

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def _file(self) -> Path:
        return self.folder / "cluster.json"

    @contextmanager
    def lock(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Lock the folder against other processes; call `waiting` if it is locked."""
        private_folder(self.folder.parent)
        # The lock file is next to the folder, so that it survives a purge.
        with self.folder.with_suffix(".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def read(self) -> Record | None:
        try:
            return Record(**json.loads(Folder(self.folder).read(self._file.name)))
        except FileNotFoundError:
            return None
        except private.Unsafe as error:
            raise _unsafe(error) from error
        except (ValueError, TypeError):
            raise SkyError(
                f"{self._file} is damaged",
                f"stop any remaining processes, and remove {self.folder}",
            ) from None

    def write(self, record: Record) -> Record:
        private_folder(self.folder)
        private.replace(self._file, f"{json.dumps(asdict(record), indent=2)}\n".encode())
        return record

    def change(self, **changes: Any) -> None:
        record = self.read()
        if record:
            self.write(replace(record, **changes))

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)

    def purge(self) -> None:
        """Delete the folder, and the record last."""
        for parent, names, _ in os.walk(self.folder):
            for folder in map(Path(parent).joinpath, names):  # tasks may make them read-only
                if not folder.is_symlink():
                    folder.chmod(stat.S_IRWXU)
        for path in self.folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path != self._file:
                path.unlink()
        if self.folder.exists():
            shutil.rmtree(self.folder)


def private_folder(path: Path) -> None:
    """Create a folder, or check that no other user can change it. Raises UserError."""
    try:
        Folder(path).create()
    except private.Unsafe as error:
        raise _unsafe(error) from error


def _unsafe(error: private.Unsafe) -> UserError:
    hint = "remove it, or set KUBECTL_SKY_STATE_HOME to a folder of yours"
    return UserError(f"{error.path}: {error.reason}", hint)
