"""Run the program in a fork of a process that has imported it.

Its imports are half of the processor time of a command, and of the tests of both clusters.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import kubectl_sky

_FOLDERS = ("actions", "cli", "cluster", "spec", "sync")
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        f"kubectl_sky.{folder}.{module.stem}"
        for folder in _FOLDERS
        for module in (Path(kubectl_sky.__file__).parent / folder).glob("*.py")
    ]
)


def run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: str,
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does; the time limit is in seconds."""
    with TemporaryDirectory() as name:
        streams = [Path(name, stream) for stream in ("stdin", "stdout", "stderr")]
        for path, text in zip(streams, (stdin, "", ""), strict=True):
            path.write_text(text)
        process = _SERVER.Process(target=_run, args=(arguments, folder, dict(environment), streams))
        process.start()
        process.join(timeout)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join()
        process.close()
        stdout, stderr = (path.read_bytes().decode() for path in streams[1:])
    if code is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout, stdout, stderr)
    return subprocess.CompletedProcess(list(arguments), code, stdout, stderr)


def _run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    streams: Sequence[Path],
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
    sys.argv = [str(Path(kubectl_sky.__file__).with_name("__main__.py")), *arguments]
    # what `python -m kubectl_sky` calls; pytest, which imports this module, need not import it
    from kubectl_sky.cli.main import run as run_command  # noqa: PLC0415

    run_command()
