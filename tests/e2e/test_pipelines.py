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
