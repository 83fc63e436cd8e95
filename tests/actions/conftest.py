"""Actions over a cluster in memory: nothing waits longer than some milliseconds."""

import io
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cli import main, verbosity
from kubectl_sky.cluster import backoff, session, streams, tail, watch
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.transport import Attempts
from kubectl_sky.observe.logs import Lines
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.submitting import submit, uploader
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.taskfile import Source
from kubectl_sky.tasks import deletion, pipeline, stop
from kubectl_sky.tasks.submissions import Submitted
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds
from tests.builders import ID
from tests.fake_cluster import FakeCluster, lost
from tests.hints import find_unknown_flags

_SHORT = 0.01
_WAITS = (
    (backoff, "_FIRST_DELAY_SECONDS"),
    (deletion, "LIMIT_SECONDS"),
    (deletion, "REQUEST_SECONDS"),
    (deletion, "_FIRST_PAUSE"),
    (pipeline, "_POLL_INTERVAL"),
    (stop, "KEPT_SECONDS"),
    (streams, "_POLL_INTERVAL"),
    (tail, "_LAST_TRIES_SECONDS"),
    (tail, "_POLL_INTERVAL"),
    (tail, "_SETTLE_SECONDS"),
    (uploader, "_FIRST_PAUSE"),
    (uploader, "_INTERVAL"),
    (watch, "_POLL_INTERVAL"),
)


class Recorder(UI):
    """A user interface that keeps what it is given.

    `then` runs after everything is sent, and `on` has what runs when a log line is shown.
    """

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.lines: list[str] = []
        self.results: list[Submitted] = []
        self.previews: list[Manifests] = []
        self.then: Callable[[], object] = lambda: None
        self.on: dict[str, Callable[[], object]] = {}

    def note(self, text: str) -> None:
        self.noted.append(text)

    def notes(self, items: Any) -> None:
        self.noted += map(str, items)

    def logs(self, lines: Lines, final_newline: bool) -> None:
        for origin, line in lines:
            text = f"{origin.prefix} {line.decode()}".strip()
            self.lines.append(text)
            self.on.get(text, lambda: None)()

    def preview(self, manifests: Manifests) -> None:
        self.previews.append(manifests)

    def submitted(self, submitted: Submitted) -> None:
        self.results.append(submitted)
        self.then()


@dataclass
class Submitter:
    """Submit a task text to the fake cluster, as one user."""

    cluster: FakeCluster
    folder: Path
    ui: Recorder = field(default_factory=Recorder)

    def __call__(
        self,
        text: str,
        *,
        follow: bool = False,
        dry_run: submit.DryRun = "none",
        after: str | None = None,
        **flags: Any,
    ) -> Recorder:
        file = self.folder / "task.yaml"
        file.write_text(text)
        environ = {"KUBECTL_SKY_CONFIG_HOME": str(self.folder)}
        overrides = Overrides(**({"task_id": ID} | flags))
        source = Source(str(file), overrides, environ, io.BytesIO())

        options = submit.Options(
            source,
            Connection(),
            dry_run=dry_run,
            follow=follow,
            wait_for_volumes=True,
            after=after,
        )
        submit.submit(options, self.ui, self.cluster.session)
        return self.ui


def put_warning(
    api: FakeCluster,
    name: str,
    reason: str = "FailedCreate",
    message: str = 'pods "x" is forbidden: RuntimeClass "fast" not found',
    **about: Any,
) -> None:
    """Create a warning event about an object."""
    api.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{reason}", "namespace": "default"},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "involvedObject": {"name": name, "namespace": "default"} | about,
        }
    )


def disown(api: FakeCluster) -> None:
    """Leave the objects of task `train` as a submit does that is killed before it sets owners."""
    for kind in (kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE):
        item = api.get(kind, f"train-{ID}")
        del item["metadata"]["ownerReferences"]
        api.put(item)


def lose(api: FakeCluster, request: str, times: int = 6) -> None:
    """Lose the next requests of a name, before an effect; six are more than the retries of one."""
    for number in range(1, times + 1):
        api.before(request, lost, number)


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll and retry within milliseconds."""
    for module, name in _WAITS:
        monkeypatch.setattr(module, name, _SHORT)
    monkeypatch.setattr(session, "TIMEOUT_SECONDS", 0)
    monkeypatch.setattr(Attempts, "pause", lambda *_: None)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also where the tests run in the background."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    """An empty cluster in memory, without evidence of earlier tasks."""
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECTL_SKY_STATE_HOME", str(tmp_path / "state"))
    shorten_waits(monkeypatch)
    return FakeCluster()


@pytest.fixture
def send(api: FakeCluster, tmp_path: Path) -> Submitter:
    """Submit task texts to the cluster in memory."""
    return Submitter(api, tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    api: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Run commands over the cluster in memory; return exit code, stdout and stderr."""
    monkeypatch.setenv("KUBECTL_SKY_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Session, "connect", api.session)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main.main(list(arguments))
        out, err = capsys.readouterr()
        assert list(find_unknown_flags(arguments, err)) == []
        return code, out, err

    yield run
    verbosity.start(0)
