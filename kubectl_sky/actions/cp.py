"""`cp`: files and folders to a node of a task, and from it, through the tar of its image."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from posixpath import basename, dirname, normpath
from threading import Event, Thread
from typing import BinaryIO

from kubectl_sky.actions import exec as executing
from kubectl_sky.actions.exec import Inside, Pipes
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError, UserError
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.sync.copying import packed, unpack
from kubectl_sky.values import dataclass

_REMOTE = re.compile(r"(?P<task>[^:/\\.]+):(?P<path>.*)", re.DOTALL)
_NO_TAR, _NO_FOLDER, _NOTHING = 97, 98, 99

# Prints where a path leads: in ~, and into it where it is a folder that a file is put in.
_RESOLVE = f"""
command -v tar > /dev/null || exit {_NO_TAR}
path=$1
case $path in "~" | "~/"*) path=$HOME${{path#"~"}} ;; esac
if [ -n "$2" ]; then
  [ ! -d "$path" ] || path=${{path%/}}/$2
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  [ -d "${{path%/*}}/" ] || exit {_NO_FOLDER}
else
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  [ -e "$path" ] || [ -L "$path" ] || exit {_NOTHING}
fi
printf %s "$path"
"""


@dataclass(frozen=True)
class Place:
    """A path; of a task where one is named."""

    task: str
    path: str


def place(text: str) -> Place:
    """Read `FILE` or `TASK:PATH`; a local name with a colon is written `./a:b`."""
    found = _REMOTE.fullmatch(text)
    return Place(found["task"], found["path"]) if found else Place("", text)


@dataclass(frozen=True)
class Node:
    """A node of a task, to copy to and from; `note` tells of what is left out."""

    session: Session
    within: Inside
    node: NodeStatus
    note: Callable[[str], None]

    def put(self, source: str, target: str) -> None:
        """Copy a file or folder to the node; into the target where that is a folder there."""
        here = Path.cwd() / normpath(source)
        if not os.path.lexists(here):
            raise UserError(f"{source}: no such file or folder")
        path = self._resolved(target or ".", here.name)
        blocks = packed(here, basename(path), self.note)
        self._tar(["-xmof", "-", "-C", dirname(path)], Pipes(stdin=blocks))

    def get(self, source: str, target: str) -> None:
        """Copy a file or folder from the node; into the target where that is a folder here."""
        path = normpath(self._resolved(source, ""))
        name = basename(path)
        if not name:
            raise UserError("the root folder cannot be copied as a whole", "name a folder in it")
        here = Path(target) / name if Path(target).is_dir() else Path(target)
        if not here.parent.is_dir():
            raise UserError(f"{here.parent}: no such folder")
        with _Sent(lambda pipes: self._tar(["-cf", "-", "-C", dirname(path), name], pipes)) as sent:
            kept = unpack(sent, here.parent.resolve(), (name, here.name), self.note)
        if not kept:
            raise UserError(f"nothing of {path} was copied")

    def _resolved(self, path: str, name: str) -> str:
        code, out, err = self._run(["sh", "-c", _RESOLVE, "sh", path, name], Pipes())
        if code == _NO_TAR:
            raise UserError(
                f"the image of {self.node.name} has no tar, which cp needs",
                f"a single file goes with `kubectl sky exec {self.within.task.id} -i -- sh -c"
                " 'cat > FILE' < FILE`",
            )
        if code == _NO_FOLDER:
            raise UserError(f"{path}: there is no such folder in {self.node.name} to put it in")
        if code == _NOTHING:
            raise UserError(f"{path}: no such file or folder in {self.node.name}")
        if code:
            raise ClusterError(f"cannot look at {path} in {self.node.name}: {_last(err)}")
        return out.decode(errors="surrogateescape")

    def _tar(self, arguments: list[str], pipes: Pipes) -> None:
        code, _, err = self._run(["tar", *arguments], pipes)
        if code:
            raise UserError(f"tar in {self.node.name} failed: {_last(err) or f'exit code {code}'}")

    def _run(self, command: list[str], pipes: Pipes) -> tuple[int, bytes, bytes]:
        out, err = bytearray(), bytearray()
        sink = out.extend if pipes.stdout is len else pipes.stdout
        program = self.within.program(self.node, command)
        heard = Pipes(pipes.stdin, sink, err.extend, stop=pipes.stop)
        return executing.run(self.session, program, heard), bytes(out), bytes(err)


def _last(err: bytes) -> str:
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[0].strip() if lines else ""


class _Sent:
    """What a program writes, as a file to read from; what goes wrong with it comes first."""

    def __init__(self, run: Callable[[Pipes], None]) -> None:
        self._run = run
        self._stop = Event()
        self._error: SkyError | None = None
        reading, self._writing = os.pipe()
        self._file = os.fdopen(reading, "rb")
        self._thread = Thread(target=self._send, name="cp", daemon=True)

    def __enter__(self) -> BinaryIO:
        self._thread.start()
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            while self._file.read(1 << 16):  # what fills the last block
                pass
        else:
            self._stop.set()
        self._file.close()
        self._thread.join()
        if self._error and (kind is None or issubclass(kind, UserError)):
            raise self._error from None

    def _send(self) -> None:
        with os.fdopen(self._writing, "wb", buffering=0) as file, suppress(BrokenPipeError):
            try:
                self._run(Pipes(stdout=file.write, stop=self._stop))
            except SkyError as error:
                self._error = None if self._stop.is_set() else error
