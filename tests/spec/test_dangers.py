"""The table of dangers: complete for the pod schema, and equal to the documentation."""

import json
import os
import re
from pathlib import Path

import pytest

from kubectl_sky.spec import dangers, files, unsupported
from kubectl_sky.spec.danger_fields import FIELDS, MEANINGS, POD_FIELDS, DangerClass
from kubectl_sky.words import assets
from kubectl_sky.words.settings import Settings
from tests.spec.documents import make_document, read

DOC = Path(__file__).parents[2] / "docs" / "security-review.md"
GENERATED = re.compile(r"(<!-- made from .*? -->\n)(.*?)(<!-- end -->)", re.S)
SUSPICIOUS = re.compile(
    r"host|secret|privileg|account|capabilit|proc|sysctl|seccomp|apparmor|selinux|windows"
    r"|token|credential|certificate|identity|keyring|nodeName|propagation|runAsUser|chap",
    re.IGNORECASE,
)
# Fields with suspicious names, with the reason why they are not in the table.
HARMLESS = {
    "hostAliases": "names within the pod",
    "hostIP": "means nothing without hostPort",
    "hostname": "the name of the pod",
    "hostnameOverride": "the name of the pod",
    "hostnames": "names within the pod",
    "setHostnameAsFQDN": "the name of the pod",
    "shareProcessNamespace": "among the containers of the pod",
    "certificateChainPath": "a path in the volume of podCertificate",
    "credentialBundlePath": "a path in the volume of podCertificate",
    "secretFile": "a path on the node, of cephfs, which is reported",
    "keyring": "a path on the node, of rbd, which is reported",
    "chapAuthDiscovery": "of iscsi, which is reported",
    "chapAuthSession": "of iscsi, which is reported",
    "windowsOptions": "its fields are reported",
    "seLinuxOptions": "its fields are reported",
    "seLinuxChangePolicy": "how volumes are relabelled",
    "runAsUserName": "a user of the Windows container",
    "host": "reported in httpGet and tcpSocket",
    "localhostProfile": "a profile that the cluster admin has put on the node",
    "secretName": "reported as secret and in azureFile",
}


def names() -> set[str]:
    """Return the names in the table without their parent fields."""
    fields = {name for field in POD_FIELDS for name in field.names}
    keys = {name for name in fields if name.startswith(("annotations.", "labels."))}
    return {name.rpartition(".")[2] for name in fields - keys} | {"capabilities"}


def test_dangers_table_lists_every_suspicious_pod_field() -> None:
    definitions = json.loads(assets.read("schemas", "pod.json"))["$defs"]
    fields = {name for kind in definitions.values() for name in kind.get("properties", ())}
    suspicious = {name for name in fields if SUSPICIOUS.search(name)}
    assert suspicious - names() - HARMLESS.keys() == set()
    assert HARMLESS.keys() <= suspicious, "a reason for a field that does not exist"


def test_dangers_table_names_are_pod_fields() -> None:
    definitions = json.loads(assets.read("schemas", "pod.json"))["$defs"]
    fields = {name for kind in definitions.values() for name in kind.get("properties", ())}
    free = {"secretProviderClass", "*"}  # keys of free-form maps
    assert names() - fields <= free


def test_refuse_setting_accepts_every_class() -> None:
    schema = json.loads(assets.read("schemas", "settings.json"))["properties"]["refuse"]
    assert schema["items"]["enum"] == list(DangerClass) == list(MEANINGS)


def table() -> str:
    """Return the tables of the documentation."""
    parts = []
    for danger_class, meaning in MEANINGS.items():
        rows = [
            f"| {', '.join(f'`{name}`' for name in field.names)} | {field.text('…')} |"
            for field in FIELDS
            if field.danger_class is danger_class
        ]
        head = f"### `{danger_class}`\n\n{meaning[0].upper()}{meaning[1:]}.\n\n"
        parts.append(head + "| field | report |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n" + "\n".join(parts) + "\n"


def test_docs_security_review_lists_every_danger() -> None:
    text = DOC.read_text(encoding="utf-8")
    if os.environ.get("UPDATE_GOLDEN"):
        text = GENERATED.sub(lambda found: found[1] + table() + found[3], text)
        DOC.write_text(text, encoding="utf-8")
    found = GENERATED.search(text)
    assert found
    assert found[2] == table()


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


@pytest.mark.parametrize(
    "path",
    [
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
    ],
)
def test_credentials_well_known_paths_are_recognized(path: str) -> None:
    assert files.has_credentials(path)


@pytest.mark.parametrize("path", [".", "main.py", "config/gcloud", "id_rsa.pub", "cacert.pem", ""])
def test_credentials_other_paths_are_not_recognized(path: str) -> None:
    assert not files.has_credentials(path)


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
    (danger,) = dangers.in_local_files(document, "/work", lambda path: path)
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
