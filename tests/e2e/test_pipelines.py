"""Pipelines: followed, failed, detached and interrupted."""

import pytest

from tests.e2e.command import Command
from tests.e2e.pipelines import chain, run_until, suspended_jobs


@pytest.mark.practice_only
def test_submit_interrupted_pipeline_is_resumed_by_resubmit(sky: Command, kubectl: Command) -> None:
    file = sky.write("pipeline.yaml", chain("echo one; sleep 3", "echo two"))
    stopped = run_until(sky, "submit", file, "--id", "ctrlc001", until="one")
    assert stopped.returncode == 130
    assert "wait ctrlc001 --continue" in stopped.stderr
    assert suspended_jobs(kubectl) == {"a": False, "b": True}
    done = sky("submit", file, "--id", "ctrlc001")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["one", "two"]


def test_submit_after_other_task_runs_when_that_has_succeeded(sky: Command) -> None:
    """A failed one cancels the task."""
    image = "resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}\n"
    train = f"name: train\n{image}run: sleep $SECONDS_TO_SLEEP; exit $CODE\n"
    env = ("--env", "SECONDS_TO_SLEEP=3", "--detach", "--id")
    assert sky("submit", "-", *env, "train001", "--env", "CODE=0", stdin=train).returncode == 0

    after = f"name: eval\n{image}run: echo evaluated\n"
    done = sky("submit", "-", "--id", "eval0001", "--after", "train", stdin=after)
    assert done.returncode == 0, done.stderr
    assert "eval: starts when train (train001) has succeeded\n" in done.stderr
    assert done.stdout.endswith("evaluated\n")
    assert sky("submit", "-", *env, "train002", "--env", "CODE=3", stdin=train).returncode == 0

    flags = ("--id", "eval0002", "--after", "train002", "--detach")
    assert sky("submit", "-", *flags, stdin=after).returncode == 0
    assert "suspended until train (train002) has succeeded" in sky("list", "-o", "wide").stdout

    done = sky("wait", "eval0002", "--continue")
    assert done.returncode == 4
    assert "eval (eval0002) was cancelled: train (train002) has failed" in done.stderr
    assert sky("status", "eval0002").returncode == 2
