"""Which context of the kubeconfig a task file uses."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.cluster.session import Connection, Session
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

TASK = "resources:\n  image_id: busybox:1.36\n  {}\nrun: echo done\n"


@pytest.fixture(autouse=True)
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current context is of another cluster than the others; `deputy` is another user."""
    users = {"dead": ("other", "me"), "good": ("here", "me"), "team/good": ("here", "me")}
    users["deputy"] = ("here", "deputy")
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {}} for name in ("other", "here")],
        "users": [{"name": name, "user": {}} for name in ("me", "deputy")],
        "contexts": [
            {"name": name, "context": {"cluster": cluster, "user": user}}
            for name, (cluster, user) in users.items()
        ],
        "current-context": "dead",
    }

    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


def write(fields: str, name: str = "task") -> str:
    Path(f"{name}.yaml").write_text(TASK.format(fields))
    return f"{name}.yaml"


@pytest.mark.parametrize(
    ("fields", "context", "place"),
    [
        ("infra: k8s/good", "good", "3:10"),
        ("infra: Kubernetes/team/good", "team/good", "3:10"),
        ("cloud: kubernetes\n  region: good", "good", "4:11"),
        ("any_of: [{infra: k8s/west}, {infra: aws}, {infra: k8s/good}]", "good", "3:53"),
    ],
)
def test_submit_context_of_file_is_used_and_noted(
    run: Run, api: FakeCluster, fields: str, context: str, place: str
) -> None:
    code, _, err = run("submit", write(fields), "--detach")
    assert code == 0, err
    note = f"context {context} of task.yaml:{place}; other commands find the task with --context"
    assert f"{note} {context}" in err.splitlines()
    assert api.connections[-1].context == context


def test_submit_context_flag_overrides_file(run: Run, api: FakeCluster) -> None:
    flags = ("--context", "good", "--dry-run=server")
    code, _, err = run("submit", write("infra: k8s/dead"), *flags)
    assert code == 0
    assert err.startswith("--context good is used instead of dead of task.yaml:3:10\n")
    code, _, err = run("submit", write("infra: k8s/good"), *flags)
    assert code == 0
    assert "is used instead" not in err
    assert {connection.context for connection in api.connections} == {"good"}


def test_submit_unknown_contexts_are_refused_with_position(run: Run, api: FakeCluster) -> None:
    file = write("any_of: [{infra: k8s/west}, {cloud: kubernetes, region: east}]")
    existing = "not found in the kubeconfig; it has: dead, good, team/good, deputy\n"
    assert run("submit", file) == (
        2,
        "",
        f'task.yaml:3:20: resources.any_of[0].infra: context "west" {existing}'
        f'task.yaml:3:59: resources.any_of[1].region: context "east" {existing}',
    )
    assert api.writes == []


def test_submit_files_of_two_users_of_one_server_need_detach(
    run: Run, api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be followed with the credentials of the first."""

    def connect(connection: Connection) -> Session:
        session = api.session(connection)
        context = connection.context or ""
        user = "deputy" if context == "deputy" else "me"
        session._target = replace(session._target, context=context, user=user)
        return session

    def finish() -> None:
        for job in [name.split()[1] for name in api.names() if name.startswith("jobs ")]:
            api.start(job)
            api.finish(job)

    monkeypatch.setattr(Session, "connect", connect)
    good, deputy, same = (
        write(f"infra: k8s/{context}", name)
        for name, context in {"good": "good", "deputy": "deputy", "same": "team/good"}.items()
    )
    code, out, err = run("submit", good, deputy)
    assert (code, out) == (2, "")
    assert "cannot be followed together: good, deputy" in err
    assert api.writes == []
    assert run("submit", "--detach", good, deputy)[0] == 0
    api.after("watch jobs", finish)
    assert run("submit", good, same)[0] == 0


def test_render_context_of_file_is_noted_without_kubeconfig(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    code, out, err = run("render", write("infra: k8s/west"), "--user", "ann")
    assert (code, out.count("west")) == (0, 1)  # in the task file
    assert err == "infra: submit uses context west, kubectl apply the current one\n"
