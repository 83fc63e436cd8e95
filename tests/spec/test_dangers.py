"""The dangers of fields are complete for the pod schema."""

import json
import re

import pytest

from kubectl_sky.spec import dangers, files, unsupported
from kubectl_sky.spec.danger_fields import (
    HARMLESS,
    MEANINGS,
    POD_FIELDS,
    UNKNOWN,
    DangerClass,
)
from kubectl_sky.words import assets
from kubectl_sky.words.settings import Settings
from tests.spec.documents import make_document, read

SUSPICIOUS = re.compile(
    r"host|secret|privileg|account|capabilit|proc|sysctl|seccomp|apparmor|selinux|windows"
    r"|token|credential|certificate|identity|keyring|nodeName|propagation|runAsUser|chap",
    re.IGNORECASE,
)
SUSPICIOUS_BUT_HARMLESS = {
    *("hostAliases", "hostnames", "hostname", "hostnameOverride", "setHostnameAsFQDN"),  # names
    "hostIP",  # means nothing without hostPort
    "shareProcessNamespace",  # among the containers of the pod
    *("capabilities", "seccompProfile", "appArmorProfile", "seLinuxOptions", "windowsOptions"),
    "seLinuxChangePolicy",  # how volumes are relabelled
    "runAsUserName",  # a user of the Windows container
    "localhostProfile",  # a profile that the cluster admin has put on the node
}


def test_harmless_fields_with_suspicious_names_are_known() -> None:
    assert {name for name in HARMLESS if SUSPICIOUS.search(name)} == SUSPICIOUS_BUT_HARMLESS


def test_dangers_names_are_pod_fields() -> None:
    definitions = json.loads(assets.read("schemas", "pod.json"))["$defs"]
    fields = {name for kind in definitions.values() for name in kind.get("properties", ())}
    reasons = {name for names in POD_FIELDS.values() for name in names}
    assert (reasons | HARMLESS) - fields == {"secretProviderClass"}
    assert not reasons & HARMLESS


def test_field_of_a_later_kubernetes_is_reported() -> None:
    spec = {"hostFuture": {"path": "x"}, "containers": [{"name": "a", "future": [1]}]}
    document = make_document(run="x", config={"kubernetes": {"pod_config": {"spec": spec}}})
    found = [danger.problem for danger in dangers.in_fields(document)]
    assert [problem.path.rpartition(".")[2] for problem in found] == ["hostFuture", "future"]
    assert {problem.message for problem in found} == {UNKNOWN}


def test_refuse_setting_accepts_every_class() -> None:
    schema = json.loads(assets.read("schemas", "settings.json"))["properties"]["refuse"]
    assert schema["items"]["enum"] == [*DangerClass, "sync"]  # sidecars of buckets, no danger
    assert list(DangerClass) == list(MEANINGS)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/mnt/data", True),
        ("/mnt/data/x", True),
        ("/mnt/data/", True),
        ("/mnt/database", False),
        ("/mnt/data/../etc", False),
        ("//mnt/data", False),
        ("mnt/data", False),
        ("", False),
        ("/", False),
    ],
)
def test_host_path_outside_settings_is_not_allowed(path: str, allowed: bool) -> None:
    assert dangers.is_allowed_host_path(path, ["/mnt/data"]) is allowed
    assert not dangers.is_allowed_host_path(path, [])


WELL_KNOWN = [
    "~/.ssh",
    "/home/me/.ssh/config",
    "a/.aws/credentials",
    "~/.config/gcloud",
    "x/server.PEM",
    "id_ed25519",
    "my-service-account-1.json",
    "/root/.kube/config",
    "~/.docker/config.json",
    "~/.boto",
    "keys/store.jks",
]
OTHERS = [".", "main.py", "config/gcloud", "id_rsa.pub", "cacert.pem", ""]


@pytest.mark.parametrize("path", [*WELL_KNOWN, *OTHERS])
def test_credentials_only_well_known_paths_are_recognized(path: str) -> None:
    assert files.has_credentials(path) is (path in WELL_KNOWN)


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": False},
        {"hostPID": None},
        {"serviceAccountName": "default"},
        {"automountServiceAccountToken": False},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        {"priorityClassName": "high"},
        {"imagePullSecrets": []},
        {"nodeSelector": {"privileged": "true", "hostPath": "x"}},
        {"securityContext": {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}},
        {"containers": [{"securityContext": {"capabilities": {"drop": ["ALL"]}}}]},
        {"containers": [{"securityContext": {"allowPrivilegeEscalation": False}}]},
        {"containers": [{"env": [{"name": "privileged", "value": "true"}]}]},
        {"volumes": [{"name": "secret", "emptyDir": {}}]},
    ],
)
def test_dangers_harmless_values_are_not_reported(spec: object) -> None:
    document = make_document(run="x", config={"kubernetes": {"pod_config": {"spec": spec}}})
    assert list(dangers.in_fields(document)) == []


def test_dangers_secret_in_path_is_not_printed() -> None:
    (document,) = read("secrets: {S: hunter2}\nfile_mounts: {/a: /srv/$S}\nrun: x\n")
    (danger,) = dangers.in_local_files(document, ["/work"], lambda path: path)
    assert "hunter2" not in str(danger)
    assert (danger.problem.path, danger.problem.severity) == ("file_mounts./a", "warning")


def test_host_path_with_secret_is_refused_and_not_printed() -> None:
    (document,) = read("secrets: {S: /etc/hunter2}\nvolumes: {/h: {host_path: $S}}\nrun: x\n")
    (judged,) = dangers.judge(dangers.in_fields(document), Settings(host_paths=("/",)), "S")
    assert "hunter2" not in str(judged.problem)
    (refusal,) = unsupported.refusals(document)
    assert refusal.path == "volumes./h.host_path"
    assert "hunter2" not in str(refusal)


@pytest.mark.parametrize(("folder", "refused"), [("/mnt", False), ("/srv", True)])
def test_host_path_at_path_set_by_flag_is_judged(folder: str, refused: bool) -> None:
    (document,) = read("envs: {DIR: null}\nvolumes: {/$DIR: {host_path: /mnt/x}}\nrun: x\n")
    found = dangers.in_fields(document)
    (judged,) = dangers.judge(found, Settings(host_paths=(folder,)), "S")
    assert judged.refused is refused


def test_host_path_set_by_flag_is_checked_with_its_value() -> None:
    (document,) = read("envs: {DIR: null}\nvolumes: {/h: {host_path: $DIR}}\nrun: x\n")
    (judged,) = dangers.judge(dangers.in_fields(document), Settings(), "S")
    assert not judged.refused


def test_refused_class_is_error_at_same_position() -> None:
    (document,) = read("run: x\nconfig:\n  kubernetes: {remote_identity: boss}\n")
    (danger,) = dangers.in_fields(document)
    (judged,) = dangers.judge([danger], Settings(refuse=("identity",)), "S")
    assert judged.problem.location == danger.problem.location == "task.yaml:3:16"
    assert (judged.problem.severity, judged.refused) == ("error", True)
    assert str(judged.problem).endswith("; refused by settings S: refuse has identity")
