"""Timestamps and templates of `logs`, over a cluster in memory."""

import time
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from kubectl_sky.cli.kept_logs import Reader
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.observe.logs import Origin
from kubectl_sky.tasks.logs import LogRequest
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nrun: echo hello\n"


@pytest.fixture(autouse=True)
def _in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "IST-5:30")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def _task(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    api.log(api.start(f"train-{ID}"), b"one\ntwo\n")
    api.finish(f"train-{ID}")


def test_logs_local_time_is_short(run: Run) -> None:
    assert run("logs", ID, "-t") == (0, "01-01 05:30:00 one\n01-01 05:30:00 two\n", "")


def test_logs_timestamps_stay_as_the_cluster_has_them(run: Run) -> None:
    code, out, _ = run("logs", ID, "--timestamps", "--tail", "1")
    assert (code, out[:20], out[-6:]) == (0, "2026-01-01T00:00:00.", "Z two\n")


def test_logs_since_0_shows_all_lines_as_kubectl(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Mock(wraps=LogOptions)
    monkeypatch.setattr("kubectl_sky.cluster.streams.LogOptions", options)
    for since, seconds in (("0", None), ("500ms", 1), ("2m", 120)):
        assert run("logs", ID, "--since", since)[0] == 0
        assert options.call_args.kwargs["since_seconds"] == seconds


def test_logs_template_replaces_line(run: Run) -> None:
    expected = f"[0] {ID} 05:30 one\n[0] {ID} 05:30 two\n".replace("05:30", "01-01 05:30:00")
    assert run("logs", ID, "-t", "--template", "[{rank}] {task} {time} {text}")[1] == expected
    out = run("logs", ID, "--template", "{time}")[1]
    assert all(line.startswith("2026-01-01T00:00:00.") for line in out.splitlines())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-t", "--timestamps"), "-t cannot be combined with --timestamps or -o json"),
        (("-t", "-o", "json"), "-t cannot be combined with --timestamps or -o json"),
        (("--tail", "-2"), "-2 is not in the range x>=-1"),
        (("--template", "{text}", "-o", "raw"), "--template cannot be combined with -o"),
        (("--template", "{secret}"), "column 1: unknown field {secret}; the fields are {task},"),
    ],
)
def test_logs_formats_that_exclude_each_other_are_refused(
    run: Run, flags: tuple[str, ...], message: str
) -> None:
    code, out, err = run("logs", ID, *flags)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("flags", "out"),
    [
        ("--exclude one", "two\n"),
        ("--exclude o$ --exclude x", "one\n"),
        ("--exclude (?i)ONE --exclude x", "two\n"),
        ("--grep o --exclude t", "one\n"),
        ("--limit-bytes 6", "one\ntw\n"),
        ("--limit-bytes 100", "one\ntwo\n"),
        ("--prefix", "node-0 | one\nnode-0 | two\n"),
        ("--highlight o", "one\ntwo\n"),
        ("--highlight ^t --color always", "one\n\x1b[1;31mt\x1b[0mwo\n"),
        (
            "--highlight ^t --highlight (?i)TW|1 --color always",
            "one\n\x1b[1;31mt\x1b[0m\x1b[1;31mw\x1b[0mo\n",
        ),
        ("--since-time 2999-01-01T00:00:00Z", ""),
        ("--since-time 2025-01-01T00:00:00+01:00", "one\ntwo\n"),
    ],
)
def test_logs_flags_of_kubectl_and_stern(run: Run, flags: str, out: str) -> None:
    assert run("logs", ID, *flags.split())[:2] == (0, out)


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T00:00:00"])
def test_logs_since_time_without_time_or_zone_is_refused(run: Run, text: str) -> None:
    assert run("logs", ID, "--since-time", text)[0] == 2


def test_logs_limit_holds_for_logs_that_a_volume_keeps(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(reader: Reader, text: str, request: LogRequest, ui: Terminal) -> bool:
        ui.logs([(Origin("gone2345", 0, "node-0", "pod"), b"one")], True)
        return True

    monkeypatch.setattr(Reader, "show_deleted", show)
    assert run("logs", "gone2345", "--limit-bytes", "2")[:2] == (0, "on\n")
