"""The tasks controller tells a URL of finished tasks."""

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.words.settings import Settings
from kubectl_sky_server.controllers import notifier
from kubectl_sky_server.controllers.loop import Context
from kubectl_sky_server.controllers.notifier import Notifier
from kubectl_sky_server.controllers.tasks import controllers
from kubectl_sky_server.install.model import Flags, controllers_install
from server_tests.controllers.conftest import running
from tests.actions.conftest import Submitter
from tests.actions.test_lead import CHAIN, run
from tests.actions.test_notify import Hook, hook
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

__all__ = ["hook"]


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "_SETTLE_SECONDS", 0.0)


def notifying(api: FakeCluster, url: str) -> AbstractContextManager[Notifier]:
    return running(api, Notifier(api.session(), url))


def test_notifier_tells_once_of_task_that_was_seen_unfinished(
    api: FakeCluster, tmp_path: Path, hook: Hook
) -> None:
    send = Submitter(api, tmp_path)
    send("name: old\nrun: 'true'\n", task_id="old00001")
    api.start("old-old00001")
    api.finish("old-old00001")
    send("name: train\nrun: 'true'\n", task_id="train001")
    hook.status = 503

    with notifying(api, hook.url) as controller:
        eventually(lambda: len(controller._unfinished) == 1)
        api.start("train-train001")
        api.finish("train-train001", 3)
        eventually(lambda: len(hook.received) >= 2)
        hook.status = 200
        eventually(lambda: not controller._unfinished)
    assert {document["status"] for document in hook.received} == {"failed"}
    assert hook.received[-1]["text"] == "train (train001) failed: node-0: exit code 3"


def test_notifier_tells_of_pipeline_when_all_stages_have_finished(
    api: FakeCluster, tmp_path: Path, hook: Hook
) -> None:
    Submitter(api, tmp_path)(CHAIN)
    with notifying(api, hook.url) as controller:
        eventually(lambda: len(controller._unfinished) == 1)
        for stage in range(3):
            assert hook.received == []
            run(api, stage)
        eventually(lambda: hook.received)
    (document,) = hook.received
    assert (document["status"], len(document["tasks"])) == ("completed", 3)


def test_notify_setting_adds_controller_and_opens_its_network(api: FakeCluster) -> None:
    def names(url: str | None) -> list[str]:
        context = Context(api.session(), "default", Settings(notify=url))
        return [type(controller).__name__ for controller in controllers(context)]

    assert names(None) == ["TasksController"]
    assert names("https://hooks.example.com/T0") == ["TasksController", "Notifier"]
    with pytest.raises(UserError, match="notify in the settings: must be https"):
        names("http://hooks.example.com/secret")
    settings = Settings(notify="https://hooks.example.com/T0")
    installs = controllers_install(Flags(), ["tasks", "fairshare"], settings=settings)
    assert [install.reaches_sources for install in installs] == [True, False]
