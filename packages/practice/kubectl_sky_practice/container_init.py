"""Start the programs of containers: enter namespaces, build the root filesystem, then exec.

This is a small process of its own, because it can fork in less than a millisecond. For each program
it forks a monitor, which starts the program, waits for it and reports on a control socket:
`{"pid": N}` or `{"error": TEXT}`, then `{"code": N}`. Each process is killed when its parent ends.

All of the host is visible at its usual paths, read-only. Only volumes and folders of the container
itself, which are deleted with it, are writable.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

HOME = "/home/practice"
_EMPTY = ("/tmp", "/run", "/var/tmp", HOME)  # writable folders without the host's files
_REPLACED = ("/tmp", "/run", "/dev")  # symbolic links of the host do not lead through these
_HIDDEN = ("dev", "proc", "tmp", "run")
_DEVICES = {"null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr"}
_DEVICES |= {"fuse", "kfd", "dri", "infiniband"}

_NEWNS = 0x20000
_NEWUTS = 0x4000000
_NEWIPC = 0x8000000
_NEWUSER = 0x10000000
_NEWPID = 0x20000000
_NAMESPACES = _NEWNS | _NEWUTS | _NEWIPC | _NEWUSER | _NEWPID
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_UNBINDABLE = 0x20000
_MS_PRIVATE = 0x40000
_NOSUID_NODEV_NOEXEC = 0xE
_MNT_DETACH = 2
_MOUNT_ATTR_RDONLY = 1
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_SYS_MOUNT_SETATTR = 442  # on every architecture
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_CAP_SYS_ADMIN = 21
_RESET_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: str = "") -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path or None)


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = [os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(texts[0], texts[1], texts[2], flags, texts[3]), target)


def _bind(source: str, target: str) -> None:
    _create(target, is_folder=os.path.isdir(source))
    _mount(source, target, flags=_MS_BIND | _MS_REC)


def _set_read_only(path: str, *, value: bool, recursive: bool = True) -> None:
    attributes = struct.pack("4Q", value and _MOUNT_ATTR_RDONLY, not value, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    number = _SYS_MOUNT_SETATTR
    path_bytes = os.fsencode(path)
    _check(_libc.syscall(number, _AT_FDCWD, path_bytes, flags, attributes, 32), path)


def _create(path: str, *, is_folder: bool) -> None:
    if not os.path.lexists(path):
        folder = path if is_folder else os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        if not is_folder:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)


def _resolved(path: str) -> str:
    """Follow the host's symbolic links, except in folders that the container replaces."""
    path = os.path.normpath(path)
    return path if _is_below(path, (*_REPLACED, HOME)) else os.path.realpath(path)


def _existing_parent(path: str) -> str:
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _is_visible(folder: str, name: str) -> bool:
    if folder == "/":
        return name not in _HIDDEN
    return folder != "/dev" or name in _DEVICES or name.startswith("nvidia")


def _copy_folder(root: str, folder: str) -> None:
    """Create a folder with the host's entries, to which mount points can be added."""
    _create(root + folder, is_folder=True)
    if folder != "/":
        _mount("tmpfs", root + folder, "tmpfs", options="mode=755")
    for entry in os.scandir(folder):
        if not _is_visible(folder, entry.name):
            continue
        target = os.path.join(root + folder, entry.name)
        try:
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
            else:
                _bind(entry.path, target)
        except OSError:
            continue  # deleted meanwhile, or not accessible


def _build_root(root: str, mounts: list[tuple[str, str, bool]]) -> None:
    """Mount the root filesystem of a container, with its volumes. Raises OSError."""
    resolver = os.path.realpath("/etc/resolv.conf")
    volumes = {resolver: (resolver, True)} if _is_below(resolver, _EMPTY) else {}
    volumes |= {_resolved(path): (source, read_only) for path, source, read_only in mounts}

    _mount("tmpfs", root, "tmpfs", options="mode=755")
    _mount("", root, flags=_MS_UNBINDABLE)  # the root does not contain itself

    copied = sorted({"/", "/dev", *_folders_with_new_entries([*_EMPTY, *volumes])})
    for folder in copied:
        _copy_folder(root, folder)
    _set_read_only(f"{root}/", value=True)
    for folder in copied:
        _set_read_only(root + folder, value=False, recursive=False)

    for path in (*_EMPTY, "/dev/shm"):
        _create(root + path, is_folder=True)
        if path.count("/") > 1:  # else it is a folder of the root's tmpfs
            _mount("tmpfs", root + path, "tmpfs")
        os.chmod(root + path, 0o1777)

    _mount_proc(f"{root}/proc")
    _create(f"{root}/dev/pts", is_folder=True)
    options = "newinstance,ptmxmode=0666,mode=0620"
    _mount("devpts", f"{root}/dev/pts", "devpts", options=options)
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")

    for path, (source, read_only) in sorted(volumes.items()):
        _bind(source, root + path)
        if read_only:
            _set_read_only(root + path, value=True)


def _folders_with_new_entries(paths: list[str]) -> Iterator[str]:
    """Return the host's folders in which mount points have to be created."""
    for path in paths:
        parents = (*_REPLACED, HOME, *(other for other in paths if other not in (path, *_EMPTY)))
        if path not in _REPLACED and not _is_below(path, parents) and not os.path.lexists(path):
            yield _existing_parent(path)


def _mount_proc(path: str) -> None:
    _create(path, is_folder=True)
    try:
        _mount("proc", path, "proc", _NOSUID_NODEV_NOEXEC)
    except OSError:  # inside a container that hides parts of /proc
        _mount("/proc", path, flags=_MS_BIND | _MS_REC)


def _unshare() -> None:
    uid = os.geteuid()
    gid = os.getegid()
    _check(_libc.unshare(_NAMESPACES))
    texts = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in texts.items():
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(file, text.encode())
        os.close(file)
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)


def _join(pid: int) -> None:
    """Enter the namespaces of a container; they apply to child processes."""
    descriptor = os.pidfd_open(pid)
    _check(_libc.setns(descriptor, _NAMESPACES))
    os.close(descriptor)


def _enter_root(root: str, hostname: str) -> None:
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."))
    _check(_libc.umount2(b".", _MNT_DETACH))
    _check(_libc.sethostname(hostname.encode(), len(hostname.encode())))


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _open_terminal(control: socket.socket) -> None:
    ours, theirs = os.openpty()
    socket.send_fds(control, [b"\n"], [ours])
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for number in range(3):
        os.dup2(theirs, number)


def _exec(request: dict[str, Any], control: socket.socket) -> NoReturn:
    os.setsid()
    os.umask(0)

    if "root" in request:
        _build_root(request["root"], request["mounts"])
        _enter_root(request["root"], request["hostname"])

    os.umask(0o022)
    os.makedirs(request["cwd"], exist_ok=True)
    os.chdir(request["cwd"])

    if request["tty"]:
        _open_terminal(control)

    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # with CAP_SYS_ADMIN, a volume could be remounted as writable
        _libc.prctl(_PR_CAPBSET_DROP, _CAP_SYS_ADMIN, 0, 0, 0)
    _die_with_parent()

    command = request["command"]
    os.execvpe(command[0], command, request["env"])


def _reason(command: str, error: OSError) -> str:
    """Return why a program did not start, in runc's words."""
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    if missing and "/" not in command:
        return f'exec: "{command}": executable file not found in $PATH'
    text = (error.strerror or str(error)).lower()
    if error.filename not in (command, None):
        return f"{error.filename}: {text}"
    return f'exec: "{command}": {f"stat {command}: " if missing else ""}{text}'


def _start(request: dict[str, Any], control: socket.socket) -> int:
    if "pid" in request:
        _join(request["pid"])
    elif "root" in request:
        _unshare()
    _die_with_parent()

    errors, report = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _exec(request, control)
        except OSError as error:
            os.write(report, _reason(request["command"][0], error).encode())
        finally:
            os._exit(127)

    os.close(report)  # the program's end closes with exec
    if reason := os.read(errors, 1 << 16):
        raise OSError(reason.decode())
    return pid


def _monitor(control: socket.socket) -> None:
    """Run the program of one request, and report how it starts and ends."""
    with control.makefile("rwb", buffering=0) as file:
        if not (line := file.readline()):
            return  # the server has stopped
        request = json.loads(line)

        def reply(**values: object) -> None:
            with suppress(BrokenPipeError):
                file.write(json.dumps(values).encode() + b"\n")

        try:
            pid = _start(request, control)
        except OSError as error:
            reply(error=str(error))
            return
        for descriptor in range(3):
            os.close(descriptor)
        reply(pid=pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if not {"pid", "root"} & request.keys():  # else the kernel ends what the program started
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        reply(code=code if code >= 0 else 128 - code)


def main(descriptor: int) -> None:
    """Fork a monitor for each request, which comes with a control socket and the streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the monitors
    server = socket.socket(fileno=descriptor)

    while True:
        _, descriptors, *_ = socket.recv_fds(server, 1, 4)
        if not descriptors:
            return  # the server has stopped

        if not os.fork():
            server.close()
            os.set_inheritable(descriptors[0], False)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _die_with_parent()
            for number, stream in enumerate(descriptors[1:]):
                os.dup2(stream, number)
                os.close(stream)
            try:
                _monitor(socket.socket(fileno=descriptors[0]))
            finally:
                os._exit(0)

        for number in descriptors:
            os.close(number)


if __name__ == "__main__":
    main(int(sys.argv[1]))
