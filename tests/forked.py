"""This program in a fork of the tests: a process of its own, without half a second of imports."""

import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import NoReturn

from kubectl_sky.cli import main
from tests import crashes
from tests.e2e.command import PROGRAM, Command, Done


def no_limits() -> None:
    """Run without limits."""


def limit_memory(size: int) -> None:
    """Let this process reserve no more than that many bytes besides what it has."""
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + size,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@dataclass(frozen=True)
class Forked(Command):
    """Calling it runs this program in a fork; `prepare` is called in it first."""

    prepare: Callable[[], object] = no_limits

    def __call__(self, *arguments: str, stdin: str | int = "", timeout: float = 30) -> Done:
        """Run to the end; stdin is a text or a descriptor. SIGALRM ends it at the timeout."""
        assert self.program == PROGRAM
        with TemporaryFile("w+") as text, TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            if isinstance(stdin, str):
                text.write(stdin)
                text.seek(0)
            source = text.fileno() if isinstance(stdin, str) else stdin
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the tests have threads
                process = os.fork()
            if not process:
                self._become(arguments, (source, out.fileno(), errors.fileno()), timeout)
            _, status = os.waitpid(process, 0)
            out.seek(0)
            errors.seek(0)
            code = os.waitstatus_to_exitcode(status)
            crashes.record(list(arguments), code)
            return Done(list(arguments), code, out.read(), errors.read())

    def _become(self, arguments: Sequence[str], streams: Sequence[int], timeout: float) -> NoReturn:
        """Be the program from here on, with these streams."""
        code = 70
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, timeout)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            sys.stdin = os.fdopen(0, closefd=False)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
            sys.argv[0] = str(Path(main.__file__).parents[1] / "__main__.py")
            os.environ.clear()
            os.environ.update(self.environment)
            os.chdir(self.folder)
            self.prepare()
            code = main.main(list(arguments))
            sys.stdout.flush()
            sys.stderr.flush()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        finally:
            os._exit(code)
