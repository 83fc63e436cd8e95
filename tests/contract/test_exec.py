"""Exec in real containers: streams, exit codes and lost connections."""

import hashlib
import io
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.exec import V4, V5, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, NotFound, ProgramMissing, SkyError, Unreachable
from kubectl_sky.words import kinds
from tests.contract.conftest import THROUGH_SERVER
from tests.contract.makers import make_pod
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually

BLOCK = bytes(range(256)) * 256


def start(session: Session, namespace: str, name: str = "a", script: str = "sleep 600") -> str:
    objects.create(session, make_pod(name, namespace, script))
    phase = "Running" if "sleep" in script else "Succeeded"
    return until(session, namespace, name, phase)


def until(session: Session, namespace: str, name: str, phase: str) -> str:
    eventually(
        lambda: (
            objects.get_manifest(session, kinds.POD, name, namespace)["status"]["phase"] == phase
        )
    )
    return name


def run(session: Session, pod: str, *command: str, **pipes: object) -> tuple[int, bytes, bytes]:
    out = bytearray()
    err = bytearray()
    program = Program(session.namespace, pod, "main", command)
    code = executing.run(
        session,
        program,
        Pipes(stdout=out.extend, stderr=err.extend, **pipes),  # type: ignore[arg-type]
    )
    return code, bytes(out), bytes(err)


def ticking() -> Iterator[bytes]:
    while True:
        yield b"x"
        time.sleep(0.1)


def assert_no_threads() -> None:
    eventually(lambda: not any(thread.name == "exec input" for thread in threading.enumerate()))


@pytest.mark.parametrize("protocols", [(V5, V4), (V4,)])
@THROUGH_SERVER
def test_exec_passes_streams_and_exit_code(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch, protocols: tuple[str, ...]
) -> None:
    monkeypatch.setattr(executing, "PROTOCOLS", protocols)
    pod = start(session, namespace)
    assert run(session, pod, "sh", "-c", "echo o; echo e >&2; exit 7") == (7, b"o\n", b"e\n")
    assert run(session, pod, "printf", "%s.", "a b", "", "'\"\\", "$HOME", "ä&c=1") == (
        0,
        "a b..'\"\\.$HOME.ä&c=1.".encode(),
        b"",
    )
    assert run(session, pod, "sh", "-c", "kill -9 $$")[0] == 137


def test_exec_stdin_is_sent_until_end_of_file(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    assert run(session, pod, "cat", stdin=[])[:2] == (0, b"")
    assert run(session, pod, "cat", stdin=io.BytesIO(b"a\0\xff\n"))[:2] == (0, b"a\0\xff\n")
    wanted = hashlib.sha256(BLOCK * 320).hexdigest()
    assert run(session, pod, "sha256sum", stdin=[BLOCK] * 320)[1].split()[0] == wanted.encode()
    code, out, _ = run(session, pod, "cat", stdin=[BLOCK * 40, b"", b"end"])
    assert (code, out == BLOCK * 40 + b"end") == (0, True)
    assert_no_threads()


@pytest.mark.practice_only
def test_exec_large_stdin_uses_bounded_memory(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    tracemalloc.start()
    try:
        code, out, _ = run(session, pod, "wc", "-c", stdin=(BLOCK for _ in range(640)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (code, out.strip()) == (0, str(len(BLOCK) * 640).encode())
    assert peak < 4_000_000


def test_exec_slow_reader_receives_all_output(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    parts = []

    def slowly(data: bytes) -> None:
        parts.append(len(data))
        if sum(parts) < 2_000_000:
            time.sleep(0.005)

    program = Program(namespace, pod, "main", ["head", "-c", "20000000", "/dev/zero"])
    assert executing.run(session, program, Pipes(stdout=slowly)) == 0
    assert sum(parts) == 20_000_000


@pytest.mark.practice_only
def test_exec_stdin_on_old_cluster_is_error(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executing, "PROTOCOLS", (V4,))
    pod = start(session, namespace)
    with pytest.raises(ClusterError, match=r"does not support closing stdin; Kubernetes 1.30"):
        run(session, pod, "cat", stdin=[b"x"])


@pytest.mark.parametrize(
    "protocols", [(V5, V4), pytest.param((V4,), marks=pytest.mark.practice_only)]
)
def test_exec_terminal_passes_input_and_size(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch, protocols: tuple[str, ...]
) -> None:
    monkeypatch.setattr(executing, "PROTOCOLS", protocols)
    pod = start(session, namespace)

    resized = threading.Event()

    def sizes() -> Iterator[tuple[int, int]]:
        yield 80, 24
        yield 91, 17
        resized.set()

    def typed() -> Iterator[bytes]:
        assert resized.wait(60)
        time.sleep(0.5)
        yield b"go\n"

    code, out, err = run(
        session,
        pod,
        "sh",
        "-c",
        "read word; echo $word; stty size; test -t 0 && exit 3",
        stdin=typed(),
        tty=True,
        sizes=sizes(),
    )
    assert (code, err) == (3, b"")
    assert out.replace(b"\r", b"") == b"go\ngo\n17 91\n"


def test_exec_terminal_without_another_key_ends_with_its_program(
    session: Session, namespace: str
) -> None:
    pod = start(session, namespace)
    over = threading.Event()

    def keys() -> Iterator[bytes]:
        over.wait(60)
        yield b""

    began = time.monotonic()
    assert run(session, pod, "echo", "hi", stdin=keys(), tty=True)[:2] == (0, b"hi\r\n")
    took = time.monotonic() - began
    over.set()
    assert took < executing._CLOSE_SECONDS
    assert_no_threads()


def test_exec_missing_program_is_named(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    for program in ("nope", "/no/such"):
        with pytest.raises(ProgramMissing, match=f"program {program} not found in the image of"):
            run(session, pod, program)


def test_exec_pod_not_running_is_not_found(session: Session, namespace: str) -> None:
    with pytest.raises(NotFound, match="pods absent not found in namespace"):
        run(session, "absent", "true")
    pod = start(session, namespace)
    with pytest.raises(NotFound, match="pod a has no container x"):
        executing.run(session, Program(namespace, pod, "x", ["true"]), Pipes())
    start(session, namespace, "done", "true")
    with pytest.raises(NotFound, match="container main of pod done is not running"):
        run(session, "done", "true")
    pending = make_pod("pending", namespace, "true", nodeSelector={"no": "such"})
    objects.create(session, pending)
    with pytest.raises(NotFound, match="container main of pod pending is not running"):
        run(session, "pending", "true")


@pytest.mark.practice_only
def test_exec_stdin_read_error_is_raised(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    closed = threading.Event()

    def broken() -> Iterator[bytes]:
        try:
            yield b"abc"
            raise OSError("the disk is gone")
        finally:
            closed.set()

    with pytest.raises(OSError, match="the disk is gone"):
        run(session, pod, "cat", stdin=broken())
    assert closed.is_set()
    assert_no_threads()


@pytest.mark.practice_only
def test_exec_timeout_and_stop_raise_error(session: Session, namespace: str) -> None:
    pod = start(session, namespace)
    begun = time.monotonic()
    with pytest.raises(ClusterError, match="sleep in pod a did not finish within 1 seconds"):
        run(session, pod, "sleep", "60", seconds=1)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(ClusterError, match="was not waited for"):
        run(session, pod, "sleep", "60", stop=stop)
    assert time.monotonic() - begun < 40


def test_exec_lost_connection_raises_unreachable(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    pod = start(session, namespace)
    program = Program(namespace, pod, "main", ["cat"])
    with pytest.raises(Unreachable, match=r"lost the connection to .*, and with it cat in pod a"):
        executing.run(cut_session, program, Pipes(stdin=ticking(), stdout=lambda _: proxy.cut()))
    proxy.budget = 300_000
    proxy.cuts = 1
    with pytest.raises(Unreachable, match="and with it head in pod a"):
        run(cut_session, pod, "head", "-c", "50000000", "/dev/zero")
    assert_no_threads()


def test_exec_deleted_pod_ends(session: Session, namespace: str) -> None:
    pod = start(session, namespace)

    def delete(_: bytes) -> None:
        objects.delete(session, kinds.POD, pod, namespace, grace=0)

    program = Program(namespace, pod, "main", ["sh", "-c", "echo up; sleep 60"])
    try:
        assert executing.run(session, program, Pipes(stdout=delete)) == 137
    except SkyError as error:
        assert "sh in pod a" in str(error)


@pytest.mark.practice_only
def test_exec_concurrent_runs_return_all_output(session: Session, namespace: str) -> None:
    pods = [start(session, namespace, f"p{rank}") for rank in range(3)]

    def count(pod: str) -> tuple[int, bytes, bytes]:
        return run(session, pod, "wc", "-c", stdin=[BLOCK] * 32)

    with ThreadPoolExecutor(9) as pool:
        counts = list(pool.map(count, pods * 3))
    assert {(code, int(out)) for code, out, _ in counts} == {(0, len(BLOCK) * 32)}
