"""The GitOps example: kustomize builds it, kubectl applies it, and the task is listed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.command import ROOT, Command

EXAMPLE = ROOT / "examples" / "gitops"
CHANGE = ("report of", "second report of")


@pytest.fixture
def gitops(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "gitops"))


def run_shell(*command: str | Path, **variables: str) -> str:
    """Run a program that uses this checkout's kubectl-sky."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **variables}
    options: Any = {"env": environment, "capture_output": True, "text": True, "check": True}
    return str(subprocess.run(command, **options).stdout)


def rendered(gitops: Path) -> dict[str, str]:
    """Render the base; return its files."""
    run_shell(gitops / "render.sh", HOME=str(gitops.parent))
    return {path.name: path.read_text() for path in (gitops / "base").iterdir()}


def change(gitops: Path) -> None:
    task = gitops / "task.yaml"
    task.write_text(task.read_text().replace(*CHANGE))


def test_render_gitops_base_matches_golden_files(gitops: Path) -> None:
    """`UPDATE_GOLDEN=1` renders the base of the example anew."""
    if os.environ.get("UPDATE_GOLDEN"):
        rendered(EXAMPLE)
    committed = {path.name: path.read_text() for path in (EXAMPLE / "base").iterdir()}
    assert rendered(gitops) == committed


def test_render_gitops_changed_task_gets_new_id(gitops: Path) -> None:
    names = set(rendered(gitops))
    change(gitops)
    assert set(rendered(gitops)) & names == {"kustomization.yaml"}


def test_render_gitops_invalid_task_keeps_base(gitops: Path) -> None:
    (gitops / "task.yaml").write_text("run: [\n")
    with pytest.raises(subprocess.CalledProcessError):
        rendered(gitops)
    assert len(list((gitops / "base").iterdir())) == 3


def test_render_argocd_plugin_prints_same_objects_as_base(gitops: Path) -> None:
    generate = yaml.safe_load((gitops / "argocd" / "plugin.yaml").read_text())["spec"]["generate"]
    command = ["env", "-C", str(gitops), *generate["command"], *generate["args"]]
    text = run_shell(*command, HOME="/nonexistent", ARGOCD_APP_NAMESPACE="team-a")
    base = [item for text in rendered(gitops).values() for item in yaml.safe_load_all(text)]
    kinds = sorted(item["kind"] for item in base if "kind" in item)
    objects = list(yaml.safe_load_all(text))
    assert sorted(item["kind"] for item in objects) == kinds
    assert {item["metadata"]["namespace"] for item in objects} == {"team-a"}


def build(kubectl: Command, gitops: Path, overlay: str) -> list[dict[str, Any]]:
    built = kubectl("kustomize", str(gitops / "overlays" / overlay))
    assert built.returncode == 0, built.stderr
    return list(yaml.safe_load_all(built.stdout))


@pytest.mark.practice_only  # kustomize is a client
def test_kustomize_prod_overlay_has_queue_like_render(
    sky: Command, kubectl: Command, gitops: Path
) -> None:
    (job,) = (item for item in build(kubectl, gitops, "prod") if item["kind"] == "Job")
    task_id = job["metadata"]["labels"]["task-id"]
    flags = ("--user", "gitops", "--id", task_id, "-n", "team-a", "--queue", "team-a")
    text = sky("render", str(gitops / "task.yaml"), *flags).stdout
    (expected,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "Job")
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert labels.pop("team") == "team-a"
    assert expected["spec"].pop("suspend")  # of Kueue: a sync would stop the Job
    assert job == expected


def test_kustomize_dev_overlay_is_applied_and_task_is_shown(
    sky: Command, kubectl: Command, gitops: Path, namespace: str
) -> None:
    overlay = gitops / "overlays" / "dev"
    file = overlay / "kustomization.yaml"
    file.write_text(file.read_text().replace("team-a-dev", namespace))
    user = ("--user", "gitops")
    assert kubectl("apply", "-k", str(overlay)).returncode == 0
    logs = sky("logs", "report", "-f", *user)
    assert logs.stdout.splitlines() == ["report of quarter 3"], logs.stderr
    (listed,) = sky.json("list", *user)["tasks"]
    assert (listed["name"], listed["status"]) == ("report", "completed")
    pods = kubectl.json("get", "pods", "-l", "team=team-a")["items"]
    assert len(pods) == 1

    # A new id, as render.sh makes it: a new Job; the former one is pruned.
    change(gitops)
    rendered(gitops)
    kinds = ("--prune-allowlist=core/v1/ConfigMap", "--prune-allowlist=batch/v1/Job")
    applied = kubectl("apply", "-k", str(overlay), "--prune", "-l", "task-name=report", *kinds)
    assert applied.returncode == 0, applied.stderr
    logs = sky("logs", "report", "-f", *user)
    assert logs.stdout.splitlines() == ["second report of quarter 3"], logs.stderr
    assert len(sky.json("list", *user)["tasks"]) == 1

    # The same name: refused, unless the objects are replaced.
    for path in (gitops / "base").glob("*-report-*"):
        path.write_text(path.read_text().replace('value: "3"', 'value: "4"'))
    refused = kubectl("apply", "-k", str(overlay))
    assert refused.returncode == 1 and "field is immutable" in refused.stderr
    assert kubectl("replace", "--force", "-k", str(overlay)).returncode == 0
    logs = sky("logs", "report", "-f", *user)
    assert logs.stdout.splitlines() == ["second report of quarter 4"], logs.stderr
