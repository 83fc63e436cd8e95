"""The output formats of `logs` with real pods."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.terminal import run_on_terminal

LINES = r"""
num_nodes: 3
resources: {image_id: "busybox:1.36"}
run: |
  echo "start of $SKYPILOT_NODE_RANK"
  printf ' 10%%\r100%%\r\n\033]0;owned\007\033[2Jhello\033[31mred\r\n'
  printf 'no newline'
"""


@pytest.mark.practice_only
def test_logs_output_formats_filters_and_colors(sky: Command, tmp_path: Path) -> None:
    done = sky("submit", "-", "--id", "shown001", stdin=LINES)
    assert done.returncode == 0, done.stderr
    flags = ("--rank", "1-2", "--grep", "^(start|no)", "-o", "raw", "--by-node")
    raw = sky("logs", "shown001", *flags)
    assert raw.stdout == "start of 1\nno newline\nstart of 2\nno newline"
    inverted = sky("logs", "shown001", "--rank", "0", "--grep", "%|hello|no", "--invert-match")
    assert inverted.stdout == "node-0 | start of 0\n"
    documents = list(map(json.loads, sky("logs", "shown001", "-o", "json").stdout.splitlines()))
    assert [line["time"] for line in documents] == sorted(line["time"] for line in documents)
    starts = [(line["rank"], line["text"]) for line in documents if "start" in line["text"]]
    assert sorted(starts) == [(rank, f"start of {rank}") for rank in range(3)]
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z$", line["time"]) for line in documents)
    assert all(line["task"] == "shown001" and line["pod"] for line in documents)
    assert len(documents) == 12

    folder = tmp_path / "a" / "b"
    kept = sky("logs", "shown001", "-f", "--output-dir", str(folder), "--max-log-requests", "1")
    assert (kept.returncode, kept.stdout) == (0, ""), kept.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        f"shown001-node-{rank}.log" for rank in range(3)
    ]
    for rank in range(3):
        # containerd removes the \r of a \r\n, the practice cluster keeps it
        text = (folder / f"shown001-node-{rank}.log").read_bytes().replace(b"\r\n", b"\n")
        assert text.startswith(b"start of %d\n 10%%\r100%%\n\x1b]0;owned\x07\x1b[2Jhello" % rank)
        assert text.endswith(b"\nno newline")
    taken = sky("logs", "shown001", "--output-dir", "/dev/null/x")
    assert taken.returncode == 2 and "cannot write to /dev/null/x" in taken.stderr

    code, screen = run_on_terminal(sky, "logs", "shown001", "--rank", "1")
    assert code == 0
    assert screen.splitlines() == [
        "\x1b[32mnode-1 |\x1b[0m start of 1",
        "\x1b[32mnode-1 |\x1b[0m 100%",
        "\x1b[32mnode-1 |\x1b[0m hello\x1b[31mred\x1b[0m",
        "\x1b[32mnode-1 |\x1b[0m no newline",
    ]
    always = sky("logs", "shown001", "--rank", "1", "--color", "always", "--tail", "1").stdout
    assert always == "\x1b[32mnode-1 |\x1b[0m no newline\n"
    plain = replace(sky, environment={**sky.environment, "NO_COLOR": "1"})
    assert run_on_terminal(plain, "logs", "shown001", "--rank", "1")[1].startswith("node-1 | start")


SKEWED = """
import datetime, time
true, shift = time.time, 3600
time.time = lambda: true() + shift
class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=shift)
datetime.datetime = Skewed
"""


@pytest.mark.practice_only
def test_logs_client_clock_skew_prints_all_lines(sky: Command, tmp_path: Path) -> None:
    """The cluster's clock decides which lines are new, not the client's."""
    (tmp_path / "sitecustomize.py").write_text(SKEWED)
    path = f"{tmp_path}:{sky.environment['PYTHONPATH']}"
    skewed = Command(sky.program, {**sky.environment, "PYTHONPATH": path}, sky.folder)
    text = "resources: {image_id: 'busybox:1.36'}\nrun: echo one; sleep 2; echo two\n"
    done = skewed("submit", "-", "--id", "skewed01", stdin=text)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["one", "two"]), done.stderr
    assert skewed("logs", "skewed01", "--since", "10m").stdout == "one\ntwo\n"
    time.sleep(2)
    assert skewed("logs", "skewed01", "--since", "1s").stdout == ""
    assert skewed("status", "skewed01").returncode == 0
    assert re.search(r"\b6\dm\n", skewed("list").stdout)
