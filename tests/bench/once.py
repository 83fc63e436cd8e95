"""Run one program and print what it took, as JSON: `python -S once.py COMMAND…`.

A process of its own, as small as it can be: Linux counts the memory of whoever started a program as
that program's, too. Nothing but the standard library may be imported here.
"""

import json
import os
import subprocess
import sys
import tempfile
import time


def main() -> None:
    """Read the output to its end, count its lines, and keep the end of what it says on stderr."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=said)
        assert process.stdout
        lines = 0
        while piece := process.stdout.read(1 << 20):
            lines += piece.count(b"\n")
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - begun
        said.seek(0)
        answer = {
            "seconds": taken,
            "processor": usage.ru_utime + usage.ru_stime,
            "megabytes": usage.ru_maxrss / 1024,
            "lines": lines,
            "code": os.waitstatus_to_exitcode(status),
            "said": said.read()[-2000:].decode(errors="replace"),
        }
    print(json.dumps(answer))


main()
