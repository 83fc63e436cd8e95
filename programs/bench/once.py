"""Run one program and print what it took, as JSON: `python -S once.py COMMAND…`.

A process of its own, as small as it can be: Linux counts the memory of the process that starts a
program as that program's, too. Only the standard library may be imported here.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

begun = time.perf_counter()
with tempfile.TemporaryFile() as errors:
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout
    lines = 0
    while piece := process.stdout.read(1 << 20):
        lines += piece.count(b"\n")
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    errors.seek(0)
    result = {
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "lines": lines,
        "code": os.waitstatus_to_exitcode(status),
        "stderr": errors.read().decode(errors="replace"),
    }
print(json.dumps(result))
