"""`--watch`: pipelines, and formats for programs, over a cluster in memory."""

import json
from collections.abc import Iterator
from urllib.parse import unquote

import pytest
import yaml

from kubectl_sky.tasks import watch
from kubectl_sky.tasks.watch import TaskUpdate
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nrun: echo hello\n"
PIPELINE = "name: both\n---\nname: a\nrun: echo\n---\nname: b\nrun: echo\n"


def jobs(api: FakeCluster) -> list[str]:
    return [name.split()[1] for name in api.names() if name.startswith("jobs ")]


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch, api: FakeCluster) -> None:
    """Finish all Jobs after the first update of a watch, and end it after the second."""
    watch_owned = watch.watch_owned

    def changing(*arguments: object) -> Iterator[TaskUpdate | None]:
        updates: list[TaskUpdate] = []
        for update in watch_owned(*arguments):  # type: ignore[arg-type]
            yield update
            updates += [update] if update else []
            if len(updates) == 1 and update:
                for job in jobs(api):
                    api.start(job)
                    api.finish(job)
            if updates and all(task.over for task in updates[-1].tasks):
                return

    monkeypatch.setattr(watch, "watch_owned", changing)


@pytest.mark.usefixtures("changes")
def test_status_watch_of_pipeline_shows_changes_until_its_end(run: Run, send: Submitter) -> None:
    send(PIPELINE)
    code, out, err = run("status", ID, "--watch")
    assert (code, err) == (0, "")
    states = [line.split()[1] for line in out.splitlines() if line.startswith("Status:")]
    assert len(states) >= 2
    assert states[-1] == "completed"


def test_status_watch_of_deleted_pipeline_exits_4(
    run: Run, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(PIPELINE)
    monkeypatch.setattr(watch, "watch_tasks", lambda *arguments: iter([None, []]))
    code, out, err = run("status", ID, "--watch")
    assert (code, out) == (4, "")
    assert err == f"error: pipeline {ID} (both) was stopped: its tasks have been deleted\n"


@pytest.mark.usefixtures("changes")
def test_list_watch_json_is_whole_documents(run: Run, send: Submitter) -> None:
    send(TASK)
    out = run("list", "--watch", "-o", "json")[1]
    decoder = json.JSONDecoder()
    documents = []
    while out.strip():
        document, end = decoder.raw_decode(out)
        documents.append(document["tasks"][0]["status"])
        out = out[end:].lstrip()
    assert len(documents) >= 2
    assert documents[-1] == "completed"


@pytest.mark.usefixtures("changes")
def test_list_watch_yaml_is_a_stream_of_documents(run: Run, send: Submitter) -> None:
    send(TASK)
    documents = list(yaml.safe_load_all(run("list", "--watch", "-o", "yaml")[1]))
    assert len(documents) >= 2
    assert documents[-1]["tasks"][0]["status"] == "completed"


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("words", [("status", ID), ("list",)])
def test_watch_of_many_tasks_is_one_stream_per_kind(
    run: Run, send: Submitter, api: FakeCluster, words: tuple[str, ...]
) -> None:
    send("name: many\n" + "".join(f"---\nname: t{number}\nrun: x\n" for number in range(12)))
    if words == ("status", ID):
        send(TASK, task_id="another1")
    assert run(*words, "--watch")[0] == 0
    assert (api.count("watch jobs"), api.count("watch pods")) == (1, 1)
    queries = [unquote(request.url) for request in api.sent if "watch=" in request.url]
    assert all((f"pipeline={ID}" in query) is (words[0] == "status") for query in queries)
