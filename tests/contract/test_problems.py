"""Errors of the cluster: a single line with the reason and a hint."""

import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.session import Connection, Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    Unreachable,
)
from kubectl_sky.words import kinds
from tests.contract.makers import make_config_map, make_job
from tests.polling import eventually


def connect(cluster: Any, **flags: Any) -> Session:
    return Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), **flags))


def text_of(error: pytest.ExceptionInfo[ClusterError]) -> str:
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 3
    return str(error.value)


def test_error_forbidden_names_user_verb_resource_and_namespace(
    cluster: Any, namespace: str
) -> None:
    alice = connect(cluster, context="alice", namespace=namespace)
    with pytest.raises(Forbidden) as error:
        objects.list_all(alice, kinds.JOB, namespace)
    assert text_of(error) == (
        f"forbidden: user {cluster.users['alice']} may not list jobs.batch"
        f" in namespace {namespace};"
        f" run `kubectl sky doctor -n {namespace}` to see all missing rights,"
        " or ask a cluster admin"
    )
    with pytest.raises(Forbidden, match="may not list nodes in the whole cluster"):
        objects.list_all(alice, kinds.NODE)
    with pytest.raises(Forbidden, match=f"`kubectl sky doctor -n {namespace} --role --with serve`"):
        objects.list_all(alice, kinds.DEPLOYMENT, namespace)


@pytest.mark.practice_only
def test_error_invalid_token_is_unauthorized_without_token(cluster: Any) -> None:
    with pytest.raises(ClusterError) as error:
        objects.list_all(connect(cluster, token="very-secret"), kinds.NODE)
    assert "unauthorized" in text_of(error)
    assert "expired" in text_of(error)
    assert "very-secret" not in text_of(error)


@pytest.mark.practice_only
def test_error_connection_refused_is_unreachable(cluster: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(Unreachable) as error:
        objects.list_all(connect(cluster, server="https://127.0.0.1:1"), kinds.NODE)
    assert text_of(error).startswith("cannot reach 127.0.0.1:1: connection refused; check")
    assert "`kubectl sky local up`" in error.value.hint, "after `local down`"
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "https://nosuch.invalid:6443"])
@pytest.mark.practice_only
def test_error_unreachable_server_url_is_about_server_of_kubectl_sky(
    cluster: Any, address: str
) -> None:
    session = connect(cluster, server_url=address, token="x")
    with pytest.raises(
        Unreachable, match=r"cannot reach .*--server-url, and that `kubectl sky api`"
    ):
        objects.list_all(session, kinds.NODE)


@pytest.mark.practice_only
def test_error_unknown_host_is_unreachable(cluster: Any) -> None:
    with pytest.raises(Unreachable, match=r"the host name nosuch\.invalid is not known"):
        objects.list_all(connect(cluster, server="https://nosuch.invalid:6443"), kinds.NODE)


@pytest.mark.practice_only
def test_error_silent_server_times_out(cluster: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        session = connect(cluster, server=url, request_timeout=0.5)
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer GET nodes in time") as error:
            objects.list_all(session, kinds.NODE)
    assert "--request-timeout" in text_of(error)
    assert time.monotonic() - begun < 30


@pytest.mark.practice_only
def test_error_untrusted_certificate_names_authority(cluster: Any, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    entry = config["clusters"][0]["cluster"]
    entry.pop("certificate-authority-data", None)
    (tmp_path / "ca.crt").write_text(
        next(iter(ssl.DER_cert_to_PEM_cert(der) for der in _system_certificates()))
    )
    entry["certificate-authority"] = str(tmp_path / "ca.crt")
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ClusterError, match="not signed by the expected authority") as error:
        objects.list_all(Session.connect(Connection(kubeconfig=str(path))), kinds.NODE)
    assert "certificate-authority" in text_of(error)


def _system_certificates() -> list[bytes]:
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        pytest.skip("this machine has no certificates of public authorities")
    return certificates


def test_error_missing_object_is_not_found(session: Session, namespace: str) -> None:
    with pytest.raises(NotFound) as error:
        objects.get_manifest(session, kinds.POD, "absent", namespace)
    assert text_of(error) == f"pods absent not found in namespace {namespace}"


def test_error_unknown_namespace_prints_create_command(session: Session) -> None:
    with pytest.raises(NotFound, match="namespace nosuch does not exist; create it with") as error:
        objects.apply(session, make_config_map("a", "nosuch"))
    assert "`kubectl create namespace nosuch`" in text_of(error)


def test_error_unserved_kind_is_cluster_error(session: Session, namespace: str) -> None:
    absent = kinds.Kind("absent.example.com", "v1", "Absent", "absents")
    with pytest.raises(ClusterError) as error:
        objects.list_manifests(session, absent, namespace)
    assert not isinstance(error.value, NotFound)
    assert "does not serve absents.absent.example.com" in text_of(error)


def test_error_existing_object_is_conflict(session: Session, namespace: str) -> None:
    objects.create(session, make_config_map("a", namespace))
    with pytest.raises(Conflict, match=f"configmaps a already exists in namespace {namespace}"):
        objects.create(session, make_config_map("a", namespace))


def test_error_concurrent_change_is_conflict(session: Session, namespace: str) -> None:
    made = objects.create(session, make_config_map("a", namespace))
    objects.patch(session, kinds.CONFIG_MAP, "a", namespace, {"data": {"x": "1"}})
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict, match="was changed by another client; try again"):
        objects.patch(session, kinds.CONFIG_MAP, "a", namespace, old)


def test_error_invalid_object_names_every_field(session: Session, namespace: str) -> None:
    with pytest.raises(ClusterError) as error:
        objects.apply(session, make_job("a", namespace, parallelism=-1, backoffLimit=-2))
    assert "Job a" in text_of(error)
    assert "spec.parallelism" in text_of(error)
    assert "spec.backoffLimit" in text_of(error)


def test_error_unknown_field_is_named(session: Session, namespace: str) -> None:
    with pytest.raises(ClusterError, match=r"refuses Job a as invalid: \.spec\.bogus") as error:
        objects.apply(session, make_job("a", namespace, bogus=1))
    assert "try again" not in text_of(error)
    with pytest.raises(ClusterError, match=r'unknown field "spec\.bogus"'):
        objects.create(session, make_job("a", namespace, bogus=1))


def test_error_exceeded_quota_is_refused(session: Session, namespace: str) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    session.send("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body=quota)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
    # the quota counts once the controller has seen it
    eventually(lambda: session.send("GET", path).body.get("status", {}).get("hard"))
    with pytest.raises(Refused) as error:
        apply_all(session, [[make_job("a", namespace)]], lambda manifest, live: None)
    assert text_of(error).startswith(
        "quota few is too small: count/jobs.batch: requested 1, used 0 of 0; stop a task"
    )


def test_error_limit_range_is_refused(session: Session, namespace: str) -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "small", "namespace": namespace},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]},
    }
    session.send("POST", f"/api/v1/namespaces/{namespace}/limitranges", body=limits)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {
            "containers": [{"name": "x", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}]
        },
    }
    # the admission plugin reads LimitRanges from a cache
    message = eventually(lambda: refusal(session, pod))
    assert "a LimitRange of the namespace denied the request" in message
    assert "maximum memory usage per Container is 64Mi" in message


def refusal(session: Session, pod: Json) -> str:
    """Return why a pod would be refused; empty if it would be created."""
    try:
        objects.create(session, pod, dry_run=True)
    except Refused as error:
        return str(error)
    return ""


def test_error_object_too_large_is_refused(session: Session, namespace: str) -> None:
    with pytest.raises(ClusterError, match="may not be more than 1048576 bytes"):
        objects.apply(session, make_config_map("a", namespace, data={"x": "x" * 1_100_000}))
    with pytest.raises(ClusterError, match="configmaps a is too large for the cluster") as error:
        objects.apply(session, make_config_map("a", namespace, data={"x": "x" * 4_000_000}))
    assert "volume" in text_of(error)


def test_error_pod_security_names_level(session: Session, namespace: str) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    objects.patch(session, kinds.NAMESPACE, namespace, None, label)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    message = eventually(lambda: refusal(session, pod))
    assert message.startswith("Pod Security level restricted:latest")


def test_error_of_secret_hides_its_values(session: Session, namespace: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": namespace},
        "stringData": {"x": ["hunter2"]},
    }
    with pytest.raises(ClusterError) as error:
        objects.apply(session, secret)
    assert "hunter2" not in text_of(error)
    assert ".stringData.x" in text_of(error)
