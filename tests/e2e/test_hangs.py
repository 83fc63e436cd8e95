"""Which node hangs: doctor compares them, list reports it, and stacks shows where they are."""

from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit
from tests.polling import eventually

# Rank 0 sleeps; the others print. A child of the script, because shells have no frames.
HANG = """
name: hang
num_nodes: 3
resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}
run: |
  echo begins
  [ $SKYPILOT_NODE_RANK != 0 ] || sleep 600
  while echo step; do sleep 1; done
"""
PYTHON = """
name: frames
num_nodes: 3
resources: {cpus: 100m, memory: 64Mi}
run: |
  cat > train.py <<'END'
  import faulthandler, os, signal, time
  faulthandler.register(signal.SIGUSR1)
  def all_reduce():
      time.sleep(600)
  def load():
      time.sleep(600)
  print("begins", flush=True)
  load() if os.environ["SKYPILOT_NODE_RANK"] == "1" else all_reduce()
  END
  python3 train.py
"""


def test_hanging_node_is_found_by_doctor_list_and_stacks(sky: Command) -> None:
    submit(sky, HANG, "hangs001")
    silent = "rank 0 has printed nothing for "
    verdict = eventually(lambda: _doctor(sky, silent), 90)
    assert "; the other 2 print every second" in verdict["findings"][0]["what"], verdict
    assert [item["rank"] for item in verdict["ranks"]] == [0, 1, 2]
    assert verdict["findings"][0]["then"] == "see where they are: `kubectl sky stacks hangs001`"
    assert silent not in sky("list").stdout  # not before 10 minutes
    assert sky("config", "set", "silent_after", "5").returncode == 0

    (row,) = (row for row in sky("list").stdout.splitlines() if row.startswith("hangs001"))
    assert "running   3/3     " in row
    assert silent in row
    assert "kubectl sky doctor hangs001" in row

    result = sky.json("stacks", "hangs001")
    (stack,) = (stack for stack in result["stacks"] if "600" in stack["command"])
    assert (stack["nodes"], stack["source"]) == ([0], "proc"), result
    assert stack["frames"][0].startswith("sleeping"), result
    assert all(what.startswith("/proc/PID/") for what in result["unread"]), result

    text = sky("stacks", "hangs001").stdout
    assert "rank 0: sleep 600: sleeping" in text.splitlines()[0]


ON_HANG = """
name: lost
num_nodes: 2
resources: {cpus: 100m, memory: 64Mi}
config: {kubectl_sky: {on_hang: {action: fail, after: 5s}}}
run: |
  for step in 1 2 3 4 5 6; do echo step $step; sleep 1; done
  [ $SKYPILOT_NODE_RANK = 0 ] || exec sleep 1000
  exec python3 -c "import socket; socket.create_server(('', 0)).accept()"
"""


def test_hanging_program_is_killed_by_the_submit_that_follows(sky: Command) -> None:
    done = sky("submit", "-", "--id", "onhang01", stdin=ON_HANG)
    assert done.returncode == 4, done.stderr
    place = "rank 1 has been in sleep 1000: sleeping in "
    assert f"lost: {place}" in done.stderr
    assert "lost: the program of node-1 was killed, because it hung" in done.stderr
    assert "node-1: it hung (exit code 137)" in sky("list").stdout
    assert sky.json("doctor", "onhang01")["summary"].startswith(f"killed by on_hang: {place}")


def _doctor(sky: Command, silent: str) -> dict[str, Any]:
    verdict: dict[str, Any] = sky.json("doctor", "hangs001")
    assert str(verdict["summary"]).startswith(silent), verdict
    return verdict


def until_all_run(sky: Command, task_id: str) -> None:
    """Wait until no node has a startup probe any more, whose programs are seen, too."""

    def all_run() -> bool:
        metadata = sky.json("status", task_id)["metadata"]
        return bool(metadata["running_nodes"] == metadata["num_nodes"])

    eventually(all_run)


@pytest.mark.practice_only
def test_stacks_program_with_faulthandler_shows_its_frames(sky: Command) -> None:
    submit(sky, PYTHON, "frames01")
    eventually(lambda: sky("logs", "frames01").stdout.count("begins") == 3)
    until_all_run(sky, "frames01")
    done = sky("stacks", "frames01")
    assert done.returncode == 0, done.stderr
    first = "2 ranks: all_reduce (train.py:4) · rank 1: load (train.py:6)"
    assert done.stdout.splitlines()[0] == first
    assert "node-0, node-2: python3 train.py (faulthandler)\n  all_reduce" in done.stdout
    assert sky.json("status", "frames01")["status"] == "running"  # the signal ended nothing


PY_SPY = """#!/bin/sh
[ "$1 $2" = "dump --pid" ] || exit 2
echo "Process $3: python3 x.py"
echo "Thread $3 (idle)"
echo "    load (x.py:3)"
echo "Thread 0x7f (idle)"
echo "    other (x.py:5)"
"""


@pytest.mark.practice_only
def test_stacks_brings_py_spy_of_this_machine(sky: Command, tmp_path: Path) -> None:
    script = "python3 -c 'import time; print(1, flush=True); time.sleep(600)'"
    submit(sky, f"num_nodes: 2\nrun: |\n  {script}\n", "brings01")
    eventually(lambda: sky("logs", "brings01").stdout.count("1\n") == 2)

    program = tmp_path / "py-spy"
    program.write_text(PY_SPY)
    program.chmod(0o755)
    until_all_run(sky, "brings01")
    path = f"{tmp_path}:{sky.environment['PATH']}"
    there = replace(sky, environment={**sky.environment, "PATH": path})
    done = there("stacks", "brings01", "--bring-py-spy")
    assert done.stdout.startswith("2 ranks: load (x.py:3)\n"), done.stderr
    assert "other" not in done.stdout


@pytest.mark.practice_only
def test_stacks_of_task_without_running_nodes_is_an_error(sky: Command) -> None:
    done = sky("submit", "-", "--id", "hangs002", stdin="run: 'true'")
    assert done.returncode == 0, done.stderr
    done = sky("stacks", "hangs002")
    assert done.returncode == 2
    assert "no node of task hangs002 is running" in done.stderr


RECORDED = """
name: recorded
num_nodes: 3
envs: {TORCH_FR_DUMP_TEMP_FILE: /tmp/dumps/rank_}
resources: {cpus: 100m, memory: 64Mi}
run: |
  mkdir /tmp/dumps
  cat > dump.py <<'END'
  import base64, os, time
  DUMPS = %s
  rank = int(os.environ["SKYPILOT_NODE_RANK"])
  with open(f"/tmp/dumps/rank_{rank}", "wb") as file:
      file.write(base64.b64decode(DUMPS[rank]))
  print("begins", flush=True)
  time.sleep(600)
  END
  exec python3 dump.py
"""


def test_stacks_tell_what_the_flight_recorders_have_dumped(sky: Command) -> None:
    folder = Path(__file__).parents[1] / "attacks" / "flight_recorder"
    files = [folder / f"rank_{rank}" for rank in range(3)]
    dumps = [b64encode(path.read_bytes()).decode() for path in files]
    submit(sky, RECORDED % dumps, "recorded")
    eventually(lambda: sky("logs", "recorded").stdout.count("begins") == 3)
    until_all_run(sky, "recorded")

    expected = (
        "ranks 0-1 wait in all_reduce #10 of group default_pg (train.py:25);"
        " rank 2 has not begun it (its last: barrier #9, completed)"
    )
    done = sky("stacks", "recorded")
    line = done.stdout.splitlines()[1]
    assert line.startswith("flight recorder, "), done.stdout
    assert f" ago: {expected}" in line
    assert f" ago: {expected}" in sky.json("stacks", "recorded")["flight_recorder"][0]
