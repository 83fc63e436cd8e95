"""Tasks that run longer than their max_duration."""

import pytest

from tests.e2e.command import Command
from tests.e2e.support import failure_texts
from tests.polling import eventually

LATE = """
name: late
max_duration: 5s
resources: {cpus: 100m, memory: 64Mi, image_id: 'busybox:1.36'}
run: |
  trap 'echo saved; exit 1' TERM
  echo begun
  while :; do sleep 1; done
"""
CAUSE = "it ran longer than max_duration 5s"


@pytest.mark.parametrize(
    "backend", [pytest.param("jobs", marks=pytest.mark.practice_only), "indexed"]
)
def test_max_duration_of_two_nodes_fails_task_in_the_words_of_the_user(
    sky: Command, backend: str
) -> None:
    flags = ("--detach", "--num-nodes", "2", "--backend", backend)
    done = sky("submit", "-", "--id", "late0001", *flags, stdin=LATE)
    assert done.returncode == 0, done.stderr
    texts = failure_texts(sky, "late0001")
    assert all(CAUSE in text for text in texts.values()), texts
    assert "longer max_duration" in texts["doctor"]

    def reasons() -> set[str | None]:
        return {node.get("reason") for node in sky.json("status", "late0001")["metadata"]["nodes"]}

    # Kubernetes deletes the pods first, and tells a moment later that the Job has failed.
    eventually(lambda: reasons() == {"DeadlineExceeded"})


def test_max_duration_of_array_is_that_of_each_task(sky: Command) -> None:
    script = LATE.replace("echo begun", "[ $SKYPILOT_JOB_RANK = 1 ] || exit 0")
    flags = ("--array", "0-2%1", "--max-duration", "8s")
    done = sky("submit", "-", "--id", "late0002", *flags, stdin=script, timeout=200)
    assert done.returncode == 4, done.stderr
    assert "1 of 3 failed, first index-1: DeadlineExceeded" in done.stderr
    assert "it ran longer than max_duration 8s" in sky("doctor", "late0002").stdout
