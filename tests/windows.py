"""Run the command line without what Windows lacks: `python -m tests.windows list`.

POSIX modules cannot be imported, POSIX functions, signals and flags do not exist, `dir_fd` is not
supported, and `sys.platform` is win32 for this program's modules. Paths and files stay those of
this system: `os.name` also decides how the standard library works. So separators, drives, access
lists, consoles and code pages are not covered.
"""

import os
import re
import select
import signal
import socket
import ssl
import sys
import time
import warnings
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

MODULES = (
    "_posixsubprocess",
    "crypt",
    "fcntl",
    "grp",
    "nis",
    "ossaudiodev",
    "posixshmem",
    "pty",
    "pwd",
    "resource",
    "sh",  # raises ImportError on Windows
    "spwd",
    "syslog",
    "termios",
    "tty",
)
# Of os: what its documentation gives as "Availability: Unix" for Python 3.11 to 3.13.
FUNCTIONS = """
    chown chroot confstr ctermid fchdir fchown fork forkpty fpathconf fstatvfs getegid
    geteuid getgid getgrouplist getgroups getloadavg getpgid getpgrp getpriority getresgid
    getresuid getsid getuid initgroups killpg lchown lockf major makedev minor mkfifo mknod
    nice openpty pathconf pipe2 posix_fadvise posix_fallocate posix_spawn posix_spawnp pread
    preadv pwrite pwritev register_at_fork sched_getaffinity sendfile set_blocking setegid
    seteuid setgid setgroups setpgid setpriority setregid setreuid setsid setuid statvfs
    sync sysconf tcgetpgrp tcsetpgrp ttyname uname wait wait3 wait4 waitid getxattr
    listxattr setxattr removexattr memfd_create O_ACCMODE O_ASYNC O_CLOEXEC O_DIRECT
    O_DIRECTORY O_DSYNC O_NDELAY O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH O_RSYNC
    O_SYNC O_TMPFILE
""".split()  # noqa: SIM905 -- a list would have one line per name
DIR_FD = """
    access chmod link mkdir open readlink rename replace rmdir stat symlink unlink utime
""".split()  # noqa: SIM905
SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
# They look at the platform when they are imported, and would then call Windows itself.
OTHERS = """
    anyio asyncio.subprocess click click._termui_impl click.shell_completion click.testing
    concurrent.futures ctypes dotenv getpass http.client jinja2 jsonpath jsonschema
    kubernetes.client kubernetes.config kubernetes.config.exec_provider logging msgspec
    pathlib platform re2 referencing requests rpds shutil ssl subprocess tarfile tempfile
    tree_sitter tree_sitter_bash urllib.request urllib3 uuid webbrowser websockets.client
    websockets.protocol yaml zoneinfo
""".split()  # noqa: SIM905


def take_away() -> None:
    """Remove from this process what Windows lacks."""
    for name in OTHERS:
        import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    _remove(os, FUNCTIONS)
    for name in DIR_FD:
        setattr(os, name, _without_dir_fd(getattr(os, name)))
    os.supports_dir_fd.clear()
    _remove(signal, {name for name in vars(signal) if re.fullmatch("SIG[A-Z0-9]+", name)} - SIGNALS)
    _remove(signal, {"alarm", "pthread_kill", "pthread_sigmask", "setitimer"})
    _remove(select, {"poll", "epoll"})
    _remove(socket, {"AF_UNIX"})
    _remove(time, {"tzset"})
    sys.platform = "win32"
    ssl.enum_certificates = lambda store: []  # type: ignore[attr-defined]
    # Other people's modules are not ours to correct.
    warnings.simplefilter("ignore", category=EncodingWarning)
    # With `python -X warn_default_encoding`: the default of Windows is not UTF-8.
    warnings.filterwarnings("error", category=EncodingWarning, module=r"kubectl_sky\.")


def _remove(module: ModuleType, names: Iterable[str]) -> None:
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def _without_dir_fd(function: Any) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"):
            if options.pop(name, None) is not None:
                raise NotImplementedError(f"{name} unavailable on this platform")
        return function(*arguments, **options)

    return call


def main() -> NoReturn:
    """Run the command line."""
    take_away()
    sys.exit(import_module("kubectl_sky.cli.main").main())


if __name__ == "__main__":
    main()
