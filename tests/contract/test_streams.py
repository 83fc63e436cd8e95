"""Follow logs of real pods: every line once and in order, over any connection."""

import threading
from collections.abc import Iterable

import pytest

from kubectl_sky.cluster import backoff, objects
from kubectl_sky.cluster import tail as tails
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Following, LogOptions, LogSource
from kubectl_sky.errors import ClusterError, Unreachable
from kubectl_sky.words import kinds
from tests.contract.conftest import THROUGH_SERVER
from tests.contract.lines import FOLLOW, Line, lines, run_pod, until_finished
from tests.contract.makers import make_pod
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually


def texts(printed: Iterable[Line]) -> list[bytes]:
    return [line.text for line in printed if not line.note]


def test_lines_follow_waits_for_start_and_reads_to_end(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; sleep 1; echo two; printf three")
    printed = list(lines(session, source, FOLLOW))
    assert [(line.text, line.whole) for line in printed] == [
        (b"one", True),
        (b"two", True),
        (b"three", False),
    ]
    again = list(lines(session, source, LogOptions()))
    assert again == printed


@THROUGH_SERVER
def test_lines_follow_returns_lines_as_written(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; sleep 1; echo two; sleep 600")
    reading = lines(session, source, FOLLOW)
    assert [next(reading).text, next(reading).text] == [b"one", b"two"]


def test_lines_preserve_bytes(session: Session, namespace: str) -> None:
    script = r"printf 'a\rb\n\n\377\000\n  spaces  \n'; head -c 200000 /dev/zero | tr '\0' x; echo"
    source = run_pod(session, namespace, script)
    printed = texts(lines(session, source, FOLLOW))
    assert printed[:4] == [b"a\rb", b"", b"\xff\x00", b"  spaces  "]
    assert printed[4] == b"x" * 200_000
    assert len(printed) == 5


def test_lines_tail_since_and_timestamps_limit_output(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; echo two; echo three")
    until_finished(session, source)
    assert texts(lines(session, source, LogOptions(tail=2))) == [b"two", b"three"]
    assert texts(lines(session, source, LogOptions(tail=0))) == []
    assert texts(lines(session, source, LogOptions(tail=1, follow=True))) == [b"three"]
    assert len(texts(lines(session, source, LogOptions(since_seconds=600)))) == 3
    stamp, _, text = texts(lines(session, source, LogOptions(timestamps=True)))[0].partition(b" ")
    assert (stamp[4:5], stamp[10:11], text) == (b"-", b"T", b"one")


@pytest.mark.practice_only
def test_lines_silent_pod_returns_no_lines(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "true")
    assert list(lines(session, source, FOLLOW)) == []


NUMBERS = """
i=0
while [ $i -lt 12000 ]; do
  i=$((i+1)); echo line $i
  [ $((i % 100)) != 0 ] || sleep 0.04
done
"""


def test_lines_repeatedly_cut_connection_returns_all_lines(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    source = run_pod(session, namespace, NUMBERS)
    proxy.budget = 200_000
    proxy.cuts = 3
    printed = texts(lines(cut_session, source, FOLLOW))
    assert printed == [b"line %d" % number for number in range(1, 12_001)]
    assert proxy.cuts == 0


@pytest.mark.practice_only
def test_lines_truncated_response_and_slow_network_returns_all_lines(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    """A response that is cut off without an error, over a slow network."""
    source = run_pod(session, namespace, NUMBERS)
    proxy.budget = 150_000
    proxy.cuts = 2
    proxy.politely = True
    proxy.delay = 0.02
    printed = texts(lines(cut_session, source, FOLLOW))
    assert printed == [b"line %d" % number for number in range(1, 12_001)]
    assert proxy.cuts == 0


@pytest.mark.practice_only
def test_lines_dead_connection_is_reopened(
    session: Session,
    cut_session: Session,
    proxy: CuttingProxy,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As behind a load balancer that dropped the connection; long silences are no failures."""
    monkeypatch.setattr(tails, "_SILENCE_SECONDS", 2.0)
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 12.0)  # a busy machine opens streams late
    monkeypatch.setattr(backoff, "_STABLE_SECONDS", 0.5)
    source = run_pod(session, namespace, "sleep 15; echo one; sleep 3; echo two")
    frozen = threading.Timer(2, proxy.freeze)
    frozen.start()
    printed = texts(lines(cut_session, source, LogOptions(follow=True, tail=0)))
    frozen.join()
    assert printed == [b"one", b"two"]


@pytest.mark.practice_only
def test_lines_cut_during_silence_returns_later_lines(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    source = run_pod(session, namespace, "echo one; sleep 2; echo two")
    reading = lines(cut_session, source, FOLLOW)
    assert next(reading).text == b"one"
    proxy.cut()
    assert texts(reading) == [b"two"]


@pytest.mark.practice_only
def test_lines_cut_until_pod_completed_returns_remaining_lines(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    source = run_pod(session, namespace, "echo one; sleep 1; echo two; printf three")
    reading = lines(cut_session, source, FOLLOW)
    assert next(reading).text == b"one"
    proxy.refusing = True
    proxy.cut()

    def come_back() -> None:
        until_finished(session, source)
        proxy.refusing = False

    back = threading.Thread(target=come_back)
    back.start()
    assert texts(reading) == [b"two", b"three"]
    back.join()


@pytest.mark.practice_only
def test_lines_unavailable_server_raises_unreachable(
    session: Session,
    cut_session: Session,
    proxy: CuttingProxy,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.5)
    source = run_pod(session, namespace, "echo one; sleep 600")
    reading = lines(cut_session, source, FOLLOW)
    assert next(reading).text == b"one"
    proxy.close()
    with pytest.raises(Unreachable):
        next(reading)


def test_lines_restarted_container_continues_with_new_log(session: Session, namespace: str) -> None:
    script = "echo run; [ -e /data/ran ] || { touch /data/ran; sleep 2; exit 3; }; sleep 3"
    pod = make_pod("a", namespace, script, restartPolicy="OnFailure")
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    objects.create(session, pod)
    source = LogSource(namespace, "a", "main")
    reading = lines(session, source, FOLLOW)
    assert [next(reading).text, next(reading).text] == [b"run", b"run"]
    previous = LogOptions(previous=True)
    eventually(lambda: texts(list(lines(session, source, previous))) == [b"run"])
    assert texts(reading) == []


def test_lines_waiting_container_returns_note(session: Session, namespace: str) -> None:
    pod = make_pod("a", namespace, "true")
    secret = {"secretRef": {"name": "absent"}}
    pod["spec"]["containers"][0]["envFrom"] = [secret]
    objects.create(session, pod)
    source = LogSource(namespace, "a", "main")
    eventually(
        lambda: objects.get_manifest(session, kinds.POD, "a", namespace)["status"].get(
            "containerStatuses"
        )
    )
    [note] = lines(session, source, LogOptions())
    assert note.note
    assert note.text.startswith(b'container "main" in pod "a" is waiting to start: ')

    with Following(session, FOLLOW) as following:
        following.add([source])
        blocks = following.blocks()
        assert [next(blocks) for _ in range(4)] == [None] * 4


def test_lines_deleted_pod_ends_with_note(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; sleep 600")
    reading = lines(session, source, FOLLOW)
    assert next(reading).text == b"one"
    objects.delete(session, kinds.POD, "a", namespace, grace=0)
    rest = list(reading)
    assert [line.text for line in rest if not line.note] == []
    assert any(b"pod a was deleted" in line.text for line in rest)


def test_lines_unknown_pod_or_container_is_reported(session: Session, namespace: str) -> None:
    [note] = lines(session, LogSource(namespace, "absent", "main"), FOLLOW)
    assert (note.text, note.note) == (b"pod absent was deleted", True)
    source = run_pod(session, namespace, "true")
    until_finished(session, source)
    with pytest.raises(ClusterError, match="logs of pod a: pod a has no container x"):
        list(lines(session, LogSource(namespace, "a", "x"), LogOptions()))
    with pytest.raises(ClusterError, match="pod a has no earlier log"):
        list(lines(session, source, LogOptions(previous=True)))
