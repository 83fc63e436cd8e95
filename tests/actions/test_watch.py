"""Watch tasks of a cluster in memory."""

import pytest

from kubectl_sky import kinds
from kubectl_sky.actions import watch
from kubectl_sky.actions.find import Scope
from kubectl_sky.observe.nodes import State
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster, lost

TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"


def test_watch_tasks_goes_on_after_an_outage_during_a_lookup(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch outlasts an outage, so the lookup of why nodes are missing has to as well."""
    monkeypatch.setattr(watch, "_SETTLE_SECONDS", 0)
    send(TWO)
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    for number in range(1, 7):  # more than the retries of a request
        api.before("list services", lost, number)
    for tasks in watch.watch_tasks(api.session(), Scope("default", None)):
        if tasks and tasks[0].state is State.FAILED:
            break
    assert api.count("list services") > 6
