"""Pipelines of small tasks, and their Jobs."""

import json
import signal

from tests.e2e.command import Command, Done
from tests.polling import eventually

_SERIAL = "name: chain\nexecution: serial\n"


_STAGE = """---
name: {name}
resources: {{image_id: 'busybox:1.36'}}
run: |
  {run}
"""


def chain(*runs: str) -> str:
    """Return a pipeline of tasks a, b, c … with these run commands."""
    tasks = (_STAGE.format(name=name, run=run) for name, run in zip("abcdef", runs, strict=False))
    return _SERIAL + "".join(tasks)


def suspended_jobs(kubectl: Command) -> dict[str, bool]:
    """Return whether each Job is suspended, by task name."""
    done = kubectl("get", "jobs", "-o", "json")
    jobs = json.loads(done.stdout)["items"]
    return {
        job["metadata"]["labels"]["task-name"]: bool(job["spec"].get("suspend")) for job in jobs
    }


def until_no_objects(kubectl: Command) -> None:
    """Wait until all objects of tasks are deleted."""
    get = ("get", "jobs,configmaps,secrets,services", "-l", "skypilot-task=true", "-o", "name")
    eventually(lambda: not kubectl(*get).stdout)


def run_until(sky: Command, *arguments: str, until: str) -> Done:
    """Run a command, interrupt it after a line of stdout, and return its result."""
    process = sky.start(*arguments)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until in line:
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    return Done(process.args, process.returncode, "".join(lines) + stdout, stderr)
