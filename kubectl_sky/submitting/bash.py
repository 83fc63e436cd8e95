"""Ask the bash of this machine for syntax errors in scripts; it reads them and runs nothing."""

import os
import re

from kubectl_sky.spec.document import printable

_TIMEOUT = 5.0  # seconds
_ERROR = re.compile(r"line (\d+): (?:warning: )?(.*)")


def syntax_error(script: str) -> tuple[int, str, str] | None:
    """Return the offset of the first error, its text and a hint; None without bash."""
    import subprocess  # noqa: PLC0415 -- it takes 8 ms, and only scripts need it

    command = ["bash", "-O", "extglob", "-n"]
    environ = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}  # no BASH_ENV
    try:
        done = subprocess.run(
            command,
            input=script.encode(errors="replace"),
            env=environ,
            capture_output=True,
            timeout=_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    error = _ERROR.search(done.stderr.decode(errors="replace"))
    if not error:
        return None
    lines = script.splitlines(keepends=True)[: int(error[1])]
    offset = sum(map(len, lines[:-1]))
    text = re.sub(r" (?:at|on) line \d+", "", error[2])  # of the script, not of the file
    return offset, f"bash cannot read the script: {printable(text, 200)}", "correct this line"
