"""The client commands without what Windows lacks (tests/windows.py), on a cluster."""

import json
import os
import sys
from dataclasses import replace

import pytest

from tests.e2e.conftest import Command

CODE = "name: code\r\nworkdir: code\r\nrun: |\r\n  ./run.sh\r\n  wc -c < random\r\n  sleep 20\r\n"
HELLO = "name: hello\r\nnum_nodes: 2\r\nrun: |\r\n  echo hello $SKYPILOT_NODE_RANK\r\n"


@pytest.fixture
def windows(sky: Command) -> Command:
    program = (sys.executable, "-X", "warn_default_encoding", "-m", "tests.windows")
    return replace(sky, program=program)


def test_windows_client_submits_shows_and_stops_task(windows: Command) -> None:
    windows.write("hello.yaml", HELLO)
    done = windows("submit", "hello.yaml", "--id", "windows1")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[1:]) == ["node-0 | hello 0", "node-1 | hello 1"]
    (task,) = windows.json("list")["tasks"]
    assert (task["task_id"], task["status"]) == ("windows1", "completed")
    assert "hello 1" in windows("logs", "hello").stdout
    for arguments in (("status",), ("doctor",), ("wait",)):
        done = windows(*arguments, "windows1")
        assert done.returncode == 0, done.stderr
    assert windows("stop", "windows1").returncode == 0
    assert windows("volumes", "list").stderr == "No volumes found.\n"


def test_windows_client_sends_files_and_runs_programs(windows: Command) -> None:
    """Too many bytes for a ConfigMap: they go to the pod through a temporary file."""
    (windows.folder / "code").mkdir()
    (windows.folder / "code" / "random").write_bytes(os.urandom(2_000_000))
    (windows.folder / "code" / "run.sh").write_bytes(b"#!/bin/sh\necho begun\n")
    windows.write("code.yaml", CODE)
    done = windows("submit", "code.yaml", "--id", "windows2", "--detach")
    assert done.returncode == 0, done.stderr
    done = windows("exec", "windows2", "--", "sh", "-c", "ls; printenv SKYPILOT_NODE_RANK")
    assert done.stdout.split() == ["random", "run.sh", "0"], done.stderr
    windows.write("note.txt", "hi\n")
    assert windows("cp", "note.txt", "windows2:note.txt").returncode == 0
    assert windows("exec", "windows2", "--", "cat", "note.txt").stdout == "hi\n"
    refused = windows("cp", "windows2:note.txt", "back.txt")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: copying from a node is not supported on Windows\n")
    lines = [
        json.loads(line) for line in windows("logs", "windows2", "-o", "json").stdout.splitlines()
    ]
    assert [line["text"].strip() for line in lines] == ["begun", "2000000"]
    assert windows("stop", "windows2").returncode == 0
