"""A browser in a network namespace, whose ports lead to those of the machine.

In the machine's own, Chromium gives up its connections whenever a pod begins or ends.
"""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

from tests.cluster.packages import require

PROGRAM = """\
#!/bin/sh
exec unshare --net --pid --fork --kill-child --mount-proc sh -c '
  ip link set lo up
  for port in {ports}; do
    socat TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:{folder}/$port &
  done
  exec chromium "$@"' sh "$@"
"""


@contextmanager
def isolated_browser(urls: Iterable[str], folder: Path, *options: str) -> Iterator[Browser]:
    """Yield a browser that reaches only these URLs of the machine."""
    require("chromium")
    ports = [urlsplit(url).port for url in urls]
    program = folder / "browser"
    program.write_text(PROGRAM.format(ports=" ".join(map(str, ports)), folder=folder))
    program.chmod(0o755)
    with ExitStack() as stack:
        for port in ports:
            ways = f"UNIX-LISTEN:{folder}/{port},fork", f"TCP:127.0.0.1:{port}"
            stack.callback(stack.enter_context(subprocess.Popen(["socat", *ways])).terminate)
        chromium = stack.enter_context(sync_playwright()).chromium
        args = ["--no-sandbox", "--disable-dev-shm-usage", *options]
        browser = chromium.launch(executable_path=program, args=args)
        stack.callback(browser.close)
        yield browser
