"""A root of its own for a container, out of the host's: namespaces and mounts, without rights.

Runs in the spawner, between fork and exec: needs nothing but what is imported already.
"""

import ctypes
import os
import re
import signal
import struct
from typing import Any

_NEW_MOUNTS, _NEW_HOSTNAME, _NEW_IPC = 0x20000, 0x4000000, 0x8000000
_NEW_USER, _NEW_PIDS = 0x10000000, 0x20000000
_OWN = _NEW_MOUNTS | _NEW_HOSTNAME | _NEW_IPC | _NEW_PIDS  # what each container has for itself
_READ_ONLY, _HARMLESS = 1, 0xE  # attributes of a mount: the latter nosuid, nodev, noexec
_BIND, _RECURSIVE, _UNBINDABLE, _PRIVATE = 0x1000, 0x4000, 0x20000, 0x40000
_DETACH = 2
_CLONE3, _MOUNT_SETATTR = 435, 442  # the same numbers on every architecture
_DEATH_SIGNAL, _DROP_BOUND, _SYS_ADMIN = 1, 24, 21  # of prctl, and a capability

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, as a clone needs it


def _call(result: int, about: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about or None)
    return result


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = [os.fsencode(text) for text in (source, target, kind, options)]
    _call(_libc.mount(texts[0], texts[1], texts[2], flags, texts[3]), target)


def _set(path: str, add: int, remove: int, *, below: bool) -> None:
    """Set attributes of a mount, and of those below it."""
    attributes = struct.pack("4Q", add, remove, 0, 0)
    flags = 0x8000 if below else 0
    _call(_libc.syscall(_MOUNT_SETATTR, -100, os.fsencode(path), flags, attributes, 32), path)


def _point(path: str, *, folder: bool) -> None:
    """Make sure that there is something to mount onto."""
    if not os.path.lexists(path):
        os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)
        if not folder:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))


def _show(root: str, path: str, pattern: str) -> None:
    """Make a folder that has the host's entries, and to which others can be added."""
    _point(root + path, folder=True)
    if path != "/":
        _mount("tmpfs", root + path, "tmpfs", options="mode=755")
    with os.scandir(path) as entries:
        for entry in entries:
            target = os.path.join(root + path, entry.name)
            try:
                if entry.is_symlink() and re.match(pattern, entry.name):
                    os.symlink(os.readlink(entry.path), target)
                elif re.match(pattern, entry.name):
                    _point(target, folder=entry.is_dir())
                    _mount(entry.path, target, flags=_BIND | _RECURSIVE)
            except OSError:
                continue  # gone meanwhile, or not for us


def _bind(root: str, path: str, source: str, read_only: bool) -> None:
    _point(root + path, folder=os.path.isdir(source))
    _mount(source, root + path, flags=_BIND | _RECURSIVE)
    if read_only:
        _set(root + path, _READ_ONLY, 0, below=True)


def _folder(root: str, path: str) -> None:
    _point(root + path, folder=True)
    if path.count("/") > 1:  # what is bound there cannot be written to
        _mount("tmpfs", root + path, "tmpfs")
    os.chmod(root + path, 0o1777)


def _processes(root: str, path: str) -> None:
    _point(root + path, folder=True)
    try:
        _mount("proc", root + path, "proc", _HARMLESS)
    except OSError:  # inside a container from which parts of /proc are hidden
        _mount(path, root + path, flags=_BIND | _RECURSIVE)


def _terminals(root: str, path: str) -> None:
    _point(f"{root}{path}/pts", folder=True)
    options = "newinstance,ptmxmode=0666,mode=0620"
    _mount("devpts", f"{root}{path}/pts", "devpts", options=options)
    os.symlink("pts/ptmx", f"{root}{path}/ptmx")


def _freeze(root: str, path: str) -> None:
    _set(root + path, _READ_ONLY, 0, below=True)


def _thaw(root: str, path: str) -> None:
    _set(root + path, 0, _READ_ONLY, below=False)


_STEPS: dict[str, Any] = {
    "show": _show,
    "folder": _folder,
    "bind": _bind,
    "processes": _processes,
    "terminals": _terminals,
    "freeze": _freeze,
    "thaw": _thaw,
}


def isolate() -> None:
    """Become the root of a user namespace, with mounts of its own. Raises OSError."""
    ids = {"uid_map": os.getuid(), "gid_map": os.getgid()}
    _call(_libc.unshare(_NEW_USER | _NEW_MOUNTS))
    texts = {"setgroups": "deny"} | {name: f"{own} {own} 1" for name, own in ids.items()}
    for name, text in texts.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _mount("none", "/", flags=_RECURSIVE | _PRIVATE)


def clone() -> int:
    """Fork into namespaces of its own. Raises OSError."""
    arguments = struct.pack("8Q", _OWN, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    return _call(_libc.syscall(_CLONE3, arguments, len(arguments)))


def enter(root: str, steps: list[list[Any]], hostname: str) -> None:
    """Build a root by steps of sandbox.py, and have it as the root. Raises OSError."""
    _mount("tmpfs", root, "tmpfs", options="mode=755")
    _mount("", root, flags=_UNBINDABLE)  # else it would contain itself
    for kind, *arguments in steps:
        _STEPS[kind](root, *arguments)
    os.chdir(root)
    _call(_libc.pivot_root(b".", b"."))
    _call(_libc.umount2(b".", _DETACH))
    _call(_libc.sethostname(hostname.encode(), len(hostname.encode())))


def join(pid: int) -> None:
    """Enter the namespaces of a process; its processes are seen by children only."""
    descriptor = os.pidfd_open(pid)
    _call(_libc.setns(descriptor, _OWN))
    os.close(descriptor)


def drop_rights() -> None:
    """Never mount again: a root that may could make what is the host's writable."""
    _libc.prctl(_DROP_BOUND, _SYS_ADMIN, 0, 0, 0)


def die_with_parent() -> None:
    """End when the process that started this one does."""
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
