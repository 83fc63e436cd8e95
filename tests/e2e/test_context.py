"""Which context of the kubeconfig submit uses."""

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import Command

pytestmark = pytest.mark.practice_only

TASK = "resources:\n  image_id: busybox:1.36\n  {}\nrun: echo done\n"
DEAD = "https://127.0.0.1:9"


@pytest.fixture
def contexts(sky: Command, tmp_path: Path) -> Command:
    """The current context is unreachable; `good` and `team/good` point to the cluster."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    context = next(
        item["context"] for item in config["contexts"] if item["name"] == config["current-context"]
    )
    config["clusters"].append({"name": "dead", "cluster": {"server": DEAD}})
    config["contexts"] = [
        {"name": "dead", "context": {**context, "cluster": "dead"}},
        {"name": "good", "context": context},
        {"name": "team/good", "context": context},
    ]
    config["current-context"] = "dead"
    path.write_text(json.dumps(config))
    return sky


@pytest.mark.parametrize(
    ("fields", "chosen", "place"),
    [
        ("infra: k8s/good", "good", "<stdin>:3:10"),
        ("infra: Kubernetes/team/good", "team/good", "<stdin>:3:10"),
        ("cloud: kubernetes\n  region: good", "good", "<stdin>:4:11"),
        ("any_of: [{infra: k8s/west}, {infra: aws}, {infra: k8s/good}]", "good", "<stdin>:3:53"),
    ],
)
def test_submit_context_of_file_is_used(
    contexts: Command, fields: str, chosen: str, place: str
) -> None:
    done = contexts("submit", "-", stdin=TASK.format(fields))
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["done"]), done.stderr
    note = f"context {chosen} of {place}; other commands find the task with --context {chosen}"
    assert note in done.stderr.splitlines()
    assert len(contexts.json("list", "--context", chosen)["tasks"]) == 1


def test_submit_context_flag_overrides_file(contexts: Command) -> None:
    flags = ("--context", "good", "--dry-run=server")
    done = contexts("submit", "-", *flags, stdin=TASK.format("infra: k8s/dead"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "--context good is used instead of dead of <stdin>:3:10\n"
    done = contexts("submit", "-", *flags, stdin=TASK.format("infra: k8s/good"))
    assert (done.returncode, done.stderr) == (0, "")


def test_submit_unknown_contexts_are_refused_with_position(contexts: Command) -> None:
    fields = "any_of: [{infra: k8s/west}, {cloud: kubernetes, region: east}]"
    done = contexts("submit", "-", stdin=TASK.format(fields))
    has = "not found in the kubeconfig; it has: dead, good, team/good\n"
    assert done.returncode == 2
    assert done.stderr == (
        f'<stdin>:3:20: resources.any_of[0].infra: context "west" {has}'
        f'<stdin>:3:59: resources.any_of[1].region: context "east" {has}'
    )


def test_submit_files_of_two_users_of_one_server_need_detach(
    contexts: Command, tmp_path: Path
) -> None:
    """They would be followed with the credentials of the first."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    good = next(item["context"] for item in config["contexts"] if item["name"] == "good")
    user = next(item["user"] for item in config["users"] if item["name"] == good["user"])
    config["users"].append({"name": "deputy", "user": user})
    config["contexts"].append({"name": "deputy", "context": {**good, "user": "deputy"}})
    path.write_text(json.dumps(config))
    files = [
        contexts.write(f"{context.replace('/', '-')}.yaml", TASK.format(f"infra: k8s/{context}"))
        for context in ("good", "deputy", "team/good")
    ]
    refused = contexts("submit", *files[:2])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cannot be followed together: good, deputy" in refused.stderr
    assert contexts("submit", "--detach", *files[:2]).returncode == 0
    assert contexts("submit", files[0], files[2]).returncode == 0


def test_render_context_of_file_is_reported_without_kubeconfig(offline: Command) -> None:
    done = offline("render", "-", "--user", "ann", stdin=TASK.format("infra: k8s/west"))
    assert done.returncode == 0
    assert "west" not in done.stdout
    assert done.stderr == "infra: submit uses context west, kubectl apply the current one\n"
