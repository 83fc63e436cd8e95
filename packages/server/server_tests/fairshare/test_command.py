"""`kubectl sky queues fairshare`."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubectl_sky.cli.main import sky
from kubectl_sky.cluster.session import Session
from kubectl_sky.words.core_objects import PriorityClass
from kubectl_sky_server.fairshare import action
from kubectl_sky_server.fairshare.action import FairShareClass
from kubectl_sky_server.fairshare.model_state import RECOVERS
from server_tests.fairshare.fair_share import ALICE, World
from tests.reading import read_as


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sky, ["queues", "fairshare", *arguments], prog_name="kubectl sky")


def test_status_lists_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    session = world.cluster.session()
    monkeypatch.setattr(Session, "connect", lambda *_: session)
    assert "No PriorityClasses of fair share found" in invoke().output

    world.now = 4_000_000_000.0
    world.group("a", "Running")
    world.group("b", "Completed")
    world.once()
    world.put_class("broken", 5, labels={"kubectl-sky/fair-share": "listed"})
    rows = [line.split() for line in invoke().output.splitlines()]
    assert rows[0] == ["NAME", "QUEUE", "OWNER", "BASE", "VALUE", "COUNT", "RUNNING", "RECOVERS"]
    assert rows[1][:7] == ["broken", "-", "?", "5", "?", "?", "-"]
    assert rows[2][:7] == [ALICE, "gpu", "alice", "1000", "980", "1", "1"]
    assert rows[2][7] != "-"

    values: Any = json.loads(invoke("-o", "json").output)["classes"]
    assert values[1] == {
        "name": ALICE,
        "queue": "gpu",
        "owner": "alice",
        "value": 980,
        "base": 1000,
        "count": 1,
        "running": 1,
        "recovers": "2096-10-02T07:07:40Z",
    }

    names = invoke("-o", "name").output.splitlines()
    assert names == ["priorityclass/broken", f"priorityclass/{ALICE}"]


def test_status_damaged_time_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    session = World().cluster.session()
    monkeypatch.setattr(Session, "connect", lambda *_: session)
    item = {"metadata": {"name": "x", "annotations": {RECOVERS: "soon"}}, "value": 5}
    monkeypatch.setattr(
        action, "list_classes", lambda _: [FairShareClass.read(read_as(PriorityClass, item))]
    )
    done = invoke()
    assert done.exception is None
    assert done.output.splitlines()[1].split()[-1] == "-"
