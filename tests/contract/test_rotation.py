"""Follow a log that the kubelet rotates meanwhile."""

import pytest

from kubectl_sky.cluster.session import Session
from tests.contract.lines import FOLLOW, lines, run_pod

# 36 MB within about 40 s: a kubelet checks every 10 s and rotates at 10 MiB
LONG = """awk 'BEGIN {
  for (i = 0; i < 360000; i++) {
    printf "%099d\\n", i
    if (i % 1200 == 1199) { fflush(); system("sleep 0.1") }
  }
}'"""


@pytest.mark.timeout(200)
def test_logs_follow_rotated_log_prints_every_line(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, LONG)
    printed = list(lines(session, source, FOLLOW))
    numbers = [int(line.text) for line in printed if not line.note]
    assert numbers == list(range(360_000)), [line for line in printed if line.note]
