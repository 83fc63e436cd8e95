"""The logger of the Python API: notes, and no HTTP requests."""

import subprocess
import sys

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
from kubectl_sky.cluster.http_trace import LOGGER
print(logging.getLogger(LOGGER).isEnabledFor(logging.INFO))
"""


def test_requests_are_not_logged_at_info() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
