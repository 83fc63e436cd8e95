"""Following a log that the kubelet puts away while it is read."""

import pytest

from kubectl_sky.cluster.session import Session
from tests.contract.lines import lines
from tests.contract.test_streams import FOLLOW, run_pod

# 36 MB within some 40 s: a kubelet looks every 10 s and puts a log away at 10 MiB
LONG = """awk 'BEGIN {
  for (i = 0; i < 360000; i++) {
    printf "%099d\\n", i
    if (i % 1200 == 1199) { fflush(); system("sleep 0.1") }
  }
}'"""


@pytest.mark.timeout(200)
def test_rotated_while_it_is_followed(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, LONG)
    found = list(lines(session, source, FOLLOW))
    numbers = [int(line.text) for line in found if not line.note]
    assert numbers == list(range(360_000)), [line for line in found if line.note]
