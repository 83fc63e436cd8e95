"""The manifests of `api --install`: restricted pods without rights, and safe values."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from kubectl_sky.cli import main
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.words import kinds
from kubectl_sky_server.install import action
from kubectl_sky_server.install.model import Flags, controllers_install, server_install
from kubectl_sky_server.rest.config import Limits
from tests.builders import make_plan, make_task
from tests.fake_cluster import FakeCluster

Json = dict[str, Any]
INGRESS = Path(__file__).parents[2] / "deploy" / "components" / "oidc" / "login.yaml"


def rendered(
    namespace: str | None = None, image: str | None = None, host_name: str | None = None
) -> dict[str, Json]:
    """Return the objects of the server by kind."""
    items = action.server(server_install(Flags(namespace, image), host_name))
    return {item.object["kind"]: item.object for item in items}


def test_server_has_no_rights_and_no_token() -> None:
    items = rendered()
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"} & set(items)
    assert items["ServiceAccount"]["automountServiceAccountToken"] is False
    spec = items["Deployment"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    (config, settings, tmp) = spec["volumes"]
    assert [list(source) for source in config["projected"]["sources"]] == [["configMap"]] * 2
    assert settings["configMap"] == {"name": "kubectl-sky-settings", "optional": True}
    assert list(tmp) == ["name", "emptyDir"]


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://p.monitoring.svc:80", {"to": [{"namespaceSelector": {"matchLabels": {
            "kubernetes.io/metadata.name": "monitoring"}}}]}),
        ("https://example.com/svc", {"ports": [{"protocol": "TCP", "port": 443}]}),
        ("http://10.0.0.1:9090/prefix", {"ports": [{"protocol": "TCP", "port": 9090}]}),
    ],
)  # fmt: skip
def test_prometheus_gets_a_token_and_its_place_in_the_policy(url: str, rule: Json) -> None:
    items = action.server(server_install(Flags(), prometheus=url))
    objects = {item.object["kind"]: item.object for item in items}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    *others, last = objects["NetworkPolicy"]["spec"]["egress"]
    assert last == rule
    assert others == rendered()["NetworkPolicy"]["spec"]["egress"]


def test_server_logs_audits_if_asked_to() -> None:
    (container,) = rendered()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--audit-log" not in container["args"]
    assert server_install(Flags(), audit_log="-").arguments[-2:] == ["--audit-log", "-"]


def test_service_of_the_server_does_not_select_task_of_the_same_name() -> None:
    task = make_plan(replace(make_task(), name="kubectl-sky-api"))
    selector = rendered()["Service"]["spec"]["selector"]
    assert selector["app.kubernetes.io/name"] == task.labels["app.kubernetes.io/name"]
    assert not selector.items() <= task.labels.items()


def test_kubeconfig_of_the_server_has_an_address_and_no_credentials(tmp_path: Path) -> None:
    text = rendered()["ConfigMap"]["data"]["kubeconfig"]
    config = yaml.safe_load(text)
    assert "users" not in config and config["contexts"] == [
        {"name": "here", "context": {"cluster": "here"}}
    ]
    path = tmp_path / "kubeconfig"
    path.write_text(text.replace("/etc/kubectl-sky-server/ca.crt", str(tmp_path / "ca.crt")))
    config["clusters"][0]["cluster"].pop("certificate-authority")
    path.write_text(yaml.safe_dump(config))
    session = Session.connect(Connection(kubeconfig=str(path), token="of-the-caller"))
    assert session.server == "https://kubernetes.default.svc"


@pytest.mark.parametrize("source", ["install", "ingress"])
def test_pods_are_restricted(source: str) -> None:
    items = yaml.safe_load_all(INGRESS.read_text())
    deployment = (
        rendered()["Deployment"]
        if source == "install"
        else next(item for item in items if item["kind"] == "Deployment")
    )
    spec = deployment["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}

    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["readinessProbe"] and container["livenessProbe"]


def test_selectors_and_ports_agree() -> None:
    items = rendered("team", "sky:1", "Sky.Example.com")
    labels = items["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        items["Service"]["spec"]["selector"],
        items["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        items["Deployment"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert {item["metadata"]["namespace"] for item in items.values()} == {"team"}

    (container,) = items["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "sky:1"

    word, *arguments = container["args"]
    assert arguments[-4:] == [
        *("--allow-host", "$(HOST_NAME)"),
        *("--allow-host", "kubectl-sky-api.$(POD_NAMESPACE).svc"),
    ]

    command = main.sky.get_command(None, word)  # type: ignore[arg-type]
    assert command

    context = command.make_context(word, arguments)
    assert context.params["behind_proxy"] and context.params["host"] == "0.0.0.0"


def test_ingress_leads_to_server_and_passes_bodies_up_to_its_limit() -> None:
    assert f"--upstream=http://{rendered()['Service']['metadata']['name']}\n" in INGRESS.read_text()
    (ingress,) = (
        item for item in yaml.safe_load_all(INGRESS.read_text()) if item["kind"] == "Ingress"
    )
    limit = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert limit == f"{Limits().proxy_body_bytes >> 20}m"


@pytest.mark.parametrize(
    "values",
    [
        ("Team", None, None),
        ("a/b", None, None),
        (None, "two words", None),
        (None, "-rf", None),
        (None, None, "sky.example.com\nkind: Secret"),
        (None, None, "https://sky.example.com"),
        (None, None, "a" * 300),
    ],
)
def test_invalid_value_is_refused(values: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(UserError, match="is not a valid"):
        rendered(*values)


def allowed_ports(policy: Json) -> list[int]:
    """Return the TCP ports of the last rule, which is that of the API server."""
    return [port["port"] for port in policy["spec"]["egress"][-1]["ports"]]


def test_policy_allows_ports_of_service_and_endpoints_of_api_server() -> None:
    api = FakeCluster()
    api.kinds.add(kinds.ENDPOINT_SLICE)
    name = {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": name}
    api.put(head | {"addressType": "IPv4", "ports": [{"name": "https", "port": 16443}]})
    ports = action.api_server_ports(api.session())
    assert ports == [443, 16443]
    server = list(action.server(server_install(Flags(api_server_ports=ports))))
    controllers = list(action.controllers(controllers_install(Flags(), ("tasks",))))
    policies = [
        item.object for item in (*server, *controllers) if item.object["kind"] == "NetworkPolicy"
    ]
    assert [allowed_ports(policy) for policy in policies] == [[443, 16443], [443, 6443]]


def test_install_without_cluster_assumes_ports_unless_flag_names_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for command in (["api", "--install"], ["controllers", "install", "--only", "tasks"]):
        assert main.main(command) == 0
        printed = capsys.readouterr()
        assert "at ports 443 and 6443" in printed.err and "--api-server-port" in printed.err
        assert main.main([*command, "--api-server-port", "16443"]) == 0
        printed = capsys.readouterr()
        items = yaml.safe_load_all(printed.out)
        (policy,) = (item for item in items if item["kind"] == "NetworkPolicy")
        assert allowed_ports(policy) == [16443] and printed.err == ""


def test_install_prints_manifests_and_flags_without_it_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["api", "--install", "-n", "team"]) == 0
    items = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [item["kind"] for item in items] == [
        *("ServiceAccount", "ConfigMap", "Deployment", "Service", "NetworkPolicy")
    ]
    assert main.main(["api", "--image", "x"]) == 2
