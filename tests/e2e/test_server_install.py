"""The Kustomize bases are built with a team's values, and accepted by a real API server."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.marks import ON_REAL
from tests.e2e.command import ROOT, Command

DEPLOY = ROOT / "packages" / "server" / "deploy"
VALUES = "host-name: sky.example.com", "host-name: ai.example.org"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    """A copy of deploy/."""
    return Path(shutil.copytree(DEPLOY, tmp_path / "deploy"))


def built(kubectl: Command, folder: Path) -> dict[tuple[str, str], Any]:
    """Return the objects of a kustomization, by kind and name."""
    done = kubectl("kustomize", str(folder))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    items = yaml.safe_load_all(done.stdout)
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def container(deployment: Any) -> Any:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.practice_only  # kustomize is a client
def test_kustomize_example_sets_values_of_team(kubectl: Command, deploy: Path) -> None:
    values = deploy / "overlays" / "example" / "values.yaml"
    values.write_text(values.read_text().replace(*VALUES).replace("monitoring", "metrics"))
    items = built(kubectl, values.parent)
    assert not any(kind == "ConfigMap" and name.endswith("-values") for kind, name in items)

    server = container(items["Deployment", "kubectl-sky-api"])
    assert server["image"] == "registry.example.com/kubectl-sky:0.1.0"

    hosts = [server["args"][i + 1] for i, arg in enumerate(server["args"]) if arg == "--allow-host"]
    assert hosts == ["$(HOST_NAME)", "kubectl-sky-api.$(POD_NAMESPACE).svc"]
    assert {"name": "HOST_NAME", "value": "ai.example.org"} in server["env"]

    login = container(items["Deployment", "kubectl-sky-login"])
    assert "--code-challenge-method=S256" in login["args"]

    variables = {item["name"]: item.get("value") for item in login["env"]}
    assert variables["OAUTH2_PROXY_REDIRECT_URL"] == "https://ai.example.org/oauth2/callback"

    ingress = items["Ingress", "kubectl-sky"]["spec"]
    assert (ingress["tls"][0]["hosts"], ingress["rules"][0]["host"]) == (
        ["ai.example.org"],
        "ai.example.org",
    )
    assert items["Deployment", "kubectl-sky-controller-tasks"]["spec"]["replicas"] == 2

    extra = items["NetworkPolicy", "kubectl-sky-api-server-port"]["spec"]
    assert extra["egress"] == [{"ports": [{"protocol": "TCP", "port": 16443}]}]

    for name in ("kubectl-sky-api", "kubectl-sky-controller-tasks"):
        labels = items["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        assert extra["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = items["NetworkPolicy", "kubectl-sky-api"]["spec"]["ingress"]
    front = items["Deployment", "kubectl-sky-login"]["spec"]["template"]["metadata"]["labels"]
    assert rule["from"] == [{"podSelector": {"matchLabels": front}}] and rule["ports"]

    metrics = yaml.safe_dump(items["NetworkPolicy", "kubectl-sky-metrics"])
    assert "kubernetes.io/metadata.name: metrics" in metrics
    assert "sky.example.com" not in yaml.safe_dump(list(items.values()))


@pytest.mark.practice_only
def test_kustomize_server_alone_in_namespace_of_overlay(kubectl: Command, deploy: Path) -> None:
    example = deploy / "overlays" / "example"
    (example / "kustomization.yaml").write_text(
        "namespace: platform\n"
        "resources: [../../base/server, values.yaml]\n"
        "components: [../../components/host-name, ../../components/oidc]\n"
    )
    items = built(kubectl, example)
    assert {item["metadata"]["namespace"] for item in items.values()} == {"platform"}
    assert ("Deployment", "kubectl-sky-login") in items
    assert "kubectl-sky.svc" not in yaml.safe_dump(list(items.values()))


@ON_REAL
def test_kustomize_example_is_accepted_as_restricted(
    kubectl: Command, deploy: Path, namespace: str
) -> None:
    level = "pod-security.kubernetes.io/warn=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    file = deploy / "overlays" / "example" / "kustomization.yaml"
    # A dry run needs a namespace that exists.
    file.write_text(f"namespace: {namespace}\n{file.read_text()}")
    done = kubectl("apply", "-k", str(file.parent), "--dry-run=server")
    warning = "Warning: resource namespaces/"  # it was not applied before
    errors = [line for line in done.stderr.splitlines() if not line.startswith(warning)]
    assert (done.returncode, errors) == (0, []), done.stderr
    assert done.stdout.count("(server dry run)") == 21
