"""Copy files to or from a node of a task with its tar."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from posixpath import basename, dirname, normpath
from threading import Event, Thread
from typing import Any, BinaryIO

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program, Sink
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError, Unreachable, UserError
from kubectl_sky.observe.mounts import BucketMount, Mount, locate
from kubectl_sky.sync.archive import Part, parts, size_of
from kubectl_sky.sync.extract import extract
from kubectl_sky.tasks import multikueue
from kubectl_sky.tasks.exec import NodeEnded, node_of_rank, task_environment
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.ui import UI, Advance
from kubectl_sky.tasks.volume_pods import VolumePod

_REMOTE = re.compile(
    r"(?:vol(?:ume)?/(?P<volume>[^:/\\]+)|(?P<task>[^:/\\.]+)):(?P<path>.*)", re.DOTALL
)
_WINDOWS = re.compile(r"([A-Za-z]):\\")
_CHANGED = 96
_NO_TAR = 97
_NO_FOLDER = 98
_NOT_FOUND = 99
_RESOLVE_SECONDS = 60.0  # timeout to resolve or to measure a path
_IDLE_SECONDS = 120.0  # seconds without a byte in either direction
_SKIPPED_PER_SECOND = 10_000_000  # at least so many bytes of a tar that have come before
_CREATE_FIRST = "create it first; without the last / the file gets that name"
_MAX_STATE_BYTES = 100
_MAX_PATH_BYTES = 16 * 1024  # maximum bytes of a path in a node

_FIND_SCRIPT = f"""
command -v tar > /dev/null || exit {_NO_TAR}
path=$1
case $path in "~" | "~/"*) path=$HOME${{path#"~"}} ;; esac
"""
_ABSOLUTE_SCRIPT = "case $path in /*) ;; *) path=$PWD/$path ;; esac"

# Prints the absolute target: expands ~, and appends the file name to an existing folder.
_RESOLVE_SCRIPT = f"""{_FIND_SCRIPT}
[ ! -d "$path" ] || path=${{path%/}}/$2
{_ABSOLUTE_SCRIPT}
[ -d "${{path%/*}}/" ] || exit {_NO_FOLDER}
printf %s "$path"
"""

# Writes the state of the files, an empty line if it cannot be had, and a tar. A folder is named `.`
# in it; the name of a file does not matter. With a state, only writes the tar from a byte on.
_SEND_SCRIPT = f"""{_FIND_SCRIPT}
{_ABSOLUTE_SCRIPT}
first=$2
send() {{
  [ "$first" -gt 1 ] || {{ echo "$state" && exec tar "$@"; }}
  exec 4>&1
  code=$({{ {{ tar "$@" 3>&-; echo "$?" >&3; }} | tail -c "+$first" >&4; }} 3>&1)
  exit "$code"
}}
[ -e "$path" ] || [ -L "$path" ] || exit {_NOT_FOUND}
look() {{ find -H "$path" -exec stat -Lc "%n %i %s %Y" {{}} + 2> /dev/null; }}
state=
sum=$(command -v cksum || command -v md5sum)
! command -v stat > /dev/null || [ -z "$sum" ] || state=$(look | "$sum")
[ "$first" -eq 1 ] || [ "$state" = "$3" ] || exit {_CHANGED}
[ ! -d "$path" ] || send -cf - -C "$path" .
send -chf - -C "${{path%/*}}/" "./${{path##*/}}"
"""

# Writes stdin to a file from a MiB on, and makes the file read-only if that is wanted. A part that
# is sent again finds it read-only.
_WRITE_SCRIPT = """
[ ! -e "$1" ] || [ -w "$1" ] || chmod u+w "$1"
dd of="$1" bs=1048576 seek="$2" conv=notrunc || exit
[ -z "$3" ] || chmod u-w "$1"
"""

# Prints the size of a path in KiB.
_SIZE_SCRIPT = f"""{_FIND_SCRIPT}
{_ABSOLUTE_SCRIPT}
exec du -sk "$path"
"""


class CopyPath(Struct, frozen=True):
    """A path in a task or on a volume, or a local path if both are empty."""

    path: str
    task: str = ""
    volume: str = ""

    @property
    def is_remote(self) -> bool:
        return bool(self.task or self.volume)


def parse_path(text: str) -> CopyPath:
    """Parse `FILE`, `TASK:PATH` or `vol/NAME:PATH`; write a local name with a colon as `./a:b`."""
    match = _REMOTE.fullmatch(text)
    if not match:
        return CopyPath(text)
    return CopyPath(match["path"], task=match["task"] or "", volume=match["volume"] or "")


def parse_paths(source: str, target: str) -> tuple[CopyPath, CopyPath]:
    """Parse the source and the target of a copy. Raises UserError unless one is remote."""
    for text in (source, target):
        if match := _WINDOWS.match(text):
            inner = text[match.end() :].replace("\\", "/")
            hint = f"in WSL it is /mnt/{match[1].lower()}/{inner}"
            raise UserError(f"{text}: a path of Windows", hint)
        if "://" in text:
            hint = "download it in the task: `kubectl sky exec TASK -- CMD`"
            raise UserError(f"{text}: a URL, and cp copies files of this machine", hint)
    paths = parse_path(source), parse_path(target)
    if all(path.is_remote for path in paths):
        raise UserError(
            "cannot copy from one node or volume to another", "copy to a local path first"
        )
    if not any(path.is_remote for path in paths):
        hint = "use TASK:PATH or vol/NAME:PATH for it"
        raise UserError("source or target must be in a task or on a volume", hint)
    return paths


def copy(
    session: Session,
    scope: Scope,
    paths: tuple[CopyPath, CopyPath],
    rank: int,
    ui: UI,
) -> None:
    """Copy a file or folder to or from a node; `ui` shows what is skipped, and how far it is.

    Raises NodeEnded if the node has ended.
    """
    source, target = paths
    if source.volume or target.volume:
        raise UserError("a volume is copied by the command line only", "use `kubectl sky cp`")
    session, task = multikueue.locate_task(session, scope, source.task or target.task)
    environment = task_environment(session, task)
    node = node_of_rank(task, rank)
    hint = (
        f"to copy a single file, use `kubectl sky exec {task.id} -i -- sh -c 'cat > FILE' < FILE`"
    )
    place = Place(session, partial(environment.program, node), node.name, ui, hint)
    place.transfer(source.path, target.path, fetches=bool(source.task))


class Results(Struct, frozen=True):
    """What a copy of a task that has ended reads or writes: a path of a volume or bucket."""

    mount: Mount
    paths: tuple[CopyPath, CopyPath]
    typed: str  # that path, as the user named it


def locate_results(ended: NodeEnded, paths: tuple[CopyPath, CopyPath]) -> Results:
    """Return the volume or bucket that has the path of a task that has ended.

    Raises UserError if none is known to have it, or if it cannot be copied from or to there.
    """
    source, target = paths
    remote = source if source.is_remote else target
    mounts = ended.task.mounts
    location = locate(mounts, remote.path)
    if location is None:
        has = ", ".join(mount.path for mount in mounts)
        hint = f"its volumes are {has}" if has else "write `volumes: {/data: NAME}` in its file"
        if target.is_remote:
            raise UserError(f"{ended.end}: only its volumes can be copied to", hint)
        raise UserError(
            f'{ended.end}, and "{remote.path}" was on no volume that is known here',
            f"{hint}; write results there the next time",
        )

    mount, path = location
    if isinstance(mount, BucketMount):
        _check_bucket(ended, mount, path, writes=target.is_remote)
    on_volume = CopyPath(path, volume=mount.title)
    typed = f"{remote.task}:{remote.path}"
    if target.is_remote:
        return Results(mount, (source, on_volume), typed)
    local = local_target(remote.path, target.path)  # named as in the node
    slash = "/" if is_new_folder(target.path) else ""
    return Results(mount, (on_volume, CopyPath(f"{local}{slash}")), typed)


def _check_bucket(ended: NodeEnded, bucket: BucketMount, path: str, *, writes: bool) -> None:
    if bucket.copier and bucket.read_only:
        what = f"{bucket.path} was a copy of {bucket.url}: what it wrote there is lost"
        raise UserError(f"{ended.end}, and {what}", bucket.copy_hint(path))
    if writes:
        what = f"and a bucket is only read then: {bucket.title}"
        raise UserError(f"{ended.end}, {what}", "copy to it with a program of its store")


def copy_results(pod: VolumePod, results: Results, ui: UI) -> None:
    """Copy to or from a pod that has the volume or bucket of a task that has ended."""
    bucket = results.mount
    if isinstance(bucket, BucketMount) and bucket.copier:
        pod.download(bucket, results.paths[0].path, ui.note)
    copy_volume(pod, results.paths, ui, results.typed)


def copy_volume(pod: VolumePod, paths: tuple[CopyPath, CopyPath], ui: UI, typed: str = "") -> None:
    """Copy to or from the folder of a volume that a pod mounts.

    `typed` is how the user named the path, if not as `vol/NAME:PATH`.
    """
    source, target = paths
    remote = source if source.is_remote else target
    typed = typed or f"vol/{remote.volume}:{remote.path}"
    place = Place(pod.session, pod.program, f"pod {pod.pod}", ui, typed=typed)
    if source.is_remote:
        place.transfer(pod.path(source.path), target.path, fetches=True)
    else:
        place.transfer(source.path, pod.path(target.path), fetches=False)


class Place(Struct, frozen=True):
    """A container to copy to and from; `ui` shows what is skipped, and how far the copy is.

    `program` is how a command runs there. `without_tar` is what to do if it has no tar. `typed` is
    how the user named the path, if not by that in the container.
    """

    session: Session
    program: Callable[[list[str]], Program]
    name: str
    ui: UI
    without_tar: str = ""
    typed: str = ""

    def transfer(self, source: str, target: str, *, fetches: bool) -> None:
        if fetches:
            self.get(source, target)
        else:
            self.put(source, target)

    def put(self, source: str, target: str) -> None:
        """Copy a file or folder to the node; into the target if that is a folder."""
        local = Path.cwd() / normpath(source)
        if not os.path.lexists(local):
            hint = f"relative paths start at the current folder, {Path.cwd()}"
            if source.startswith(("/", "~")):
                hint = ""
            raise UserError(f"{source}: no such file or folder", hint)
        answer = FirstBytes(_MAX_PATH_BYTES, _MAX_PATH_BYTES)
        given = target or "."
        if local.is_dir():  # becomes the target if that does not exist
            given = given.rstrip("/") or "/"
        resolve = ["sh", "-c", _RESOLVE_SCRIPT, "sh", given, local.name]
        self._run(given, resolve, stdout=answer, seconds=_RESOLVE_SECONDS)
        if not answer.data.startswith(b"/"):
            raise ClusterError(f"{self.name} did not answer where {given} is")
        path = answer.data.decode(errors="surrogateescape")  # is used in the node only
        size = 0
        with suppress(OSError):  # packing tells it
            size = size_of(local) if self.ui.live else 0
        with self.ui.transfer(f"copying {local.name}", size) as advance:
            for part in parts(local, basename(path), self.ui.note):
                self._send(path, part, advance)

    def _send(self, path: str, part: Part, advance: Advance) -> None:
        """Send a part of what is copied to a path, once more after a lost connection."""
        command = ["tar", "-xmof", "-", "-C", dirname(path)]
        if part.file:
            file = f"{dirname(path)}/{part.file}"
            seals = "yes" if part.seals else ""
            command = ["sh", "-c", _WRITE_SCRIPT, "sh", file, str(part.offset >> 20), seals]
        retries = self.session.retries()
        retries.reset()  # a part may take long
        blocks = _counted(part.blocks(), advance)
        while True:
            try:
                return self._run(path, command, stdin=blocks)
            except Unreachable as error:
                self.session.wait_or_raise(retries, error)
            blocks = part.blocks()

    def get(self, source: str, target: str) -> None:
        """Copy a file or folder from the node; into the target if that is a folder."""
        local = local_target(source, target)
        size = self._measure(source) if self.ui.live else 0

        def check(is_file: bool) -> None:
            if is_file and is_new_folder(target):
                raise UserError(f"{target}: no such folder", _CREATE_FIRST)

        with self.ui.transfer(f"copying {local.name}", size) as advance:
            receive = partial(self._receive, source, advance)
            with _ProgramOutput(receive) as stream:
                extract(stream, local, self.ui.note, check)

    def _measure(self, source: str) -> int:
        """Return about how many bytes a path has; 0 if that is not known."""
        answer = FirstBytes(_MAX_PATH_BYTES, _MAX_PATH_BYTES)
        command = ["sh", "-c", _SIZE_SCRIPT, "sh", source or "."]
        with suppress(SkyError):
            self._run(source, command, stdout=answer, seconds=_RESOLVE_SECONDS)
        number = answer.data.split(b"\t")[0]
        return int(number[:12]) * 1024 if number.isdigit() else 0

    def _receive(self, source: str, advance: Advance, stdout: Sink, stop: Event) -> None:
        """Write the tar of a path to a sink; after a lost connection, go on where it ended.

        Raises ClusterError if the files have changed before that.
        """
        tar = _Tar(stdout, advance)
        idle = _IDLE_SECONDS
        retries = self.session.retries()
        while True:
            received = tar.received
            words = [source or ".", str(received + 1), tar.state]
            command = ["sh", "-c", _SEND_SCRIPT, "sh", *words]
            try:
                return self._run(source, command, stdout=tar.write, stop=stop, idle=idle)
            except Unreachable as error:
                if not tar.state:
                    raise
                if tar.received > received:
                    retries.reset()  # only what fails since then is limited in time
                self.session.wait_or_raise(retries, error)
            idle = _IDLE_SECONDS + tar.received / _SKIPPED_PER_SECOND

    def _run(self, path: str, command: list[str], **pipes: Any) -> None:
        """Run sh or tar in the node. Raises SkyError if it fails."""
        stderr = FirstBytes()
        pipes_of_program = Pipes(**{"idle": _IDLE_SECONDS, **pipes}, stderr=stderr)
        code = executing.run(self.session, self.program(command), pipes_of_program)

        node = self.name
        if code == _CHANGED:
            what = "the connection was lost, and the files have changed since the copy began"
            raise ClusterError(what, "copy them again")
        if code == _NO_TAR:
            raise UserError(f"the image of {node} has no tar, which cp needs", self.without_tar)
        if code in (_NO_FOLDER, _NOT_FOUND):
            what = "target folder" if code == _NO_FOLDER else "file or folder"
            hint = "" if path.startswith(("/", "~")) else "relative paths start in ~/sky_workdir"
            if code == _NO_FOLDER and path.endswith("/"):
                hint = _CREATE_FIRST
            if code == _NOT_FOUND and not hint and not self.typed:
                hint = "`kubectl sky exec TASK -- ls DIR` shows which there are"
            missing = f"{self.typed}: no such {what}" if self.typed else ""
            raise UserError(missing or f"{path}: no such {what} in {node}", hint)
        if code:
            raise UserError(f"copying in {node} failed: {stderr.line or f'exit code {code}'}")


class _Tar:
    """What has come of a tar, and the state of its files, which is the line before it."""

    def __init__(self, sink: Sink, advance: Advance) -> None:
        self._sink = sink
        self._advance = advance
        self._line = b""
        self.state = ""
        self.received = 0

    def write(self, data: bytes) -> None:
        if not self._line.endswith(b"\n"):
            line, newline, data = data.partition(b"\n")
            self._line += line + newline
            if len(self._line) > _MAX_STATE_BYTES:
                raise UserError("the node sent no tar")
            self.state = self._line.decode(errors="replace").strip()
        self._sink(data)
        self.received += len(data)
        self._advance(len(data))


def local_target(source: str, target: str) -> Path:
    """Return the local path of a copy, named as the user typed it. Raises UserError."""
    words = [word for word in source.split("/") if word not in ("", ".")]
    if source.startswith("/") and not words:
        raise UserError("the root folder cannot be copied as a whole", "choose a folder in it")
    path = Path(target)
    if path.is_dir():
        if not words or words[-1] == ".." or words == ["~"]:
            raise UserError(
                f"{source or '.'}: the path does not end with a name for the local copy",
                f"add one to the target: {path / 'NAME'}",
            )
        path /= words[-1]
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder", "create it first")
    return path


def is_new_folder(target: str) -> bool:
    """Return whether a local path names a folder that does not exist: `models/`."""
    return target.endswith("/") and not Path(target).is_dir()


def _counted(blocks: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    for block in blocks:
        yield block
        advance(len(block))


class _ProgramOutput:
    """Expose the output of a program as a file.

    An error of the program takes precedence over a UserError of the reader.
    """

    def __init__(self, run: Callable[[Sink, Event], None]) -> None:
        self._run = run
        self._stop = Event()
        self._error: SkyError | None = None
        reading, self._writing = os.pipe()
        self._file = os.fdopen(reading, "rb")
        self._thread: Thread | None = None

    def __enter__(self) -> BinaryIO:
        self._thread = parallel.run_daemon(self._send, name="cp")
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None:
            self._stop.set()
        self._file.close()
        if self._thread:
            self._thread.join()
        if self._error and (kind is None or issubclass(kind, UserError)):
            raise self._error from None

    def _send(self) -> None:
        with os.fdopen(self._writing, "wb", buffering=0) as file, suppress(BrokenPipeError):
            try:
                self._run(file.write, self._stop)
            except SkyError as error:
                self._error = None if self._stop.is_set() else error
