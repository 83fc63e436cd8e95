"""Retried nodes: status, logs and result."""

from tests.cluster.marks import ON_REAL
from tests.e2e.command import Command
from tests.e2e.support import FAIL_ONCE, create_volume

CODES = """
name: codes
resources:
  image_id: busybox:1.36
  job_recovery: {recover_on_exit_codes: [33]}
volumes: {/marks: %s}
run: |
  if [ -e /marks/been ]; then exit 5; fi
  touch /marks/been
  exit 33
"""


def test_submit_retried_node_completes_and_counts_restart(sky: Command) -> None:
    done = sky("submit", "-", "--id", "again001", stdin=FAIL_ONCE % create_volume(sky, "marks-a"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["first attempt", "second attempt"]
    assert "node-0 failed and starts again: exit code 3; restart 1 follows\n" in done.stderr
    task = sky.json("status", "again001")
    assert (task["status"], task["metadata"]["restarts"]) == ("completed", 1)
    (node,) = task["metadata"]["nodes"]
    assert (node["exit_code"], node["restarts"]) == (0, 1)
    assert sky("logs", "again001").stdout == "second attempt\n"
    assert sky("logs", "again001", "--previous").stdout == "first attempt\n"
    assert "1 restart" in sky("list", "-o", "wide").stdout


@ON_REAL
def test_submit_recover_on_exit_codes_restarts_only_on_listed_code(sky: Command) -> None:
    """Exit code 33 restarts the node although retries are 0; exit code 5 fails the task."""
    done = sky("submit", "-", "--id", "codes001", stdin=CODES % create_volume(sky, "marks-c"))
    assert done.returncode == 4, done.stderr
    assert "node-0: exit code 5 after 1 restart" in done.stderr
    task = sky.json("status", "codes001")
    assert (task["status"], task["metadata"]["restarts"]) == ("failed", 1)
