"""Task files that reach for the cluster node, other Secrets, identities and the user's files."""

import io
import json
import os
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.actions.validate import check
from kubectl_sky.spec import dangers, files
from kubectl_sky.spec.danger_fields import FIELDS, POD_FIELDS, DangerClass
from tests.e2e.command import Command
from tests.spec.documents import make_document, read
from tests.spec.test_corpus import CORPUS

# Dangerous field, and a task with the field in the line marked HERE. A text that begins with
# "spec:" is a pod_config.
TASKS = {
    "privileged": "spec:\n  containers:\n  - securityContext:\n      privileged: true # HERE",
    "allowPrivilegeEscalation": (
        "spec:\n  initContainers:\n  - name: a\n    image: b\n    securityContext:\n"
        "      allowPrivilegeEscalation: true # HERE"
    ),
    "securityContext": "spec:\n  containers:\n  - securityContext: null # HERE",
    "seccompProfile": "spec:\n  securityContext:\n    seccompProfile: null # HERE",
    "appArmorProfile": "spec:\n  securityContext:\n    appArmorProfile: ~ # HERE",
    "capabilities": "spec:\n  containers:\n  - securityContext:\n      capabilities: # HERE",
    "capabilities.drop": (
        "spec:\n  containers:\n  - securityContext:\n      capabilities:\n        drop: null # HERE"
    ),
    "capabilities.add": (
        "spec:\n  containers:\n  - securityContext:\n      capabilities:\n"
        "        drop: [ALL]\n        add: [SYS_ADMIN] # HERE"
    ),
    "procMount": "spec:\n  containers:\n  - securityContext:\n      procMount: Unmasked # HERE",
    "seccompProfile.type": (
        "spec:\n  securityContext:\n    seccompProfile:\n      type: Unconfined # HERE"
    ),
    "appArmorProfile.type": (
        "spec:\n  containers:\n  - securityContext:\n"
        "      appArmorProfile:\n        type: Unconfined # HERE"
    ),
    "annotations.container.apparmor.security.beta.kubernetes.io/*": (
        "metadata:\n  annotations:\n"
        "    container.apparmor.security.beta.kubernetes.io/task: unconfined # HERE"
    ),
    "annotations.container.seccomp.security.alpha.kubernetes.io/*": (
        "metadata:\n  annotations:\n"
        "    container.seccomp.security.alpha.kubernetes.io/task: unconfined # HERE"
    ),
    "annotations.seccomp.security.alpha.kubernetes.io/*": (
        "metadata:\n  annotations:\n    seccomp.security.alpha.kubernetes.io/pod: unconfined # HERE"
    ),
    "annotations.seccomp-profile.kubernetes.cri-o.io": (
        "metadata:\n  annotations:\n    seccomp-profile.kubernetes.cri-o.io: unconfined # HERE"
    ),
    "annotations.seccomp-profile.kubernetes.cri-o.io/*": (
        "metadata:\n  annotations:\n    seccomp-profile.kubernetes.cri-o.io/main: unconfined # HERE"
    ),
    "annotations.io.kubernetes.cri-o.*": (
        "metadata:\n  annotations:\n    io.kubernetes.cri-o.Devices: /dev/sda # HERE"
    ),
    "annotations.io.katacontainers.*": (
        "metadata:\n  annotations:\n    io.katacontainers.config.hypervisor.path: /bin/sh # HERE"
    ),
    "annotations.cdi.k8s.io/*": (
        "metadata:\n  annotations:\n    cdi.k8s.io/x: nvidia.com/gpu=all # HERE"
    ),
    "annotations.devices.nri.io": "metadata:\n  annotations:\n    devices.nri.io: x # HERE",
    "annotations.devices.nri.io/*": (
        "metadata:\n  annotations:\n    devices.nri.io/container.main: x # HERE"
    ),
    "annotations.mounts.nri.io": "metadata:\n  annotations:\n    mounts.nri.io: x # HERE",
    "annotations.mounts.nri.io/*": "metadata:\n  annotations:\n    mounts.nri.io/pod: x # HERE",
    "annotations.cdi-devices.nri.io": (
        "config:\n  kubernetes:\n    custom_metadata:\n      annotations:\n"
        "        cdi-devices.nri.io: x # HERE"
    ),
    "annotations.cdi-devices.nri.io/*": (
        "metadata:\n  annotations:\n    cdi-devices.nri.io/pod: x # HERE"
    ),
    "annotations.k8s.v1.cni.cncf.io/*": (
        "metadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: host # HERE"
    ),
    "annotations.v1.multus-cni.io/*": (
        "metadata:\n  annotations:\n    v1.multus-cni.io/default-network: host # HERE"
    ),
    "annotations.vault.hashicorp.com/agent-inject": (
        "metadata:\n  annotations:\n    vault.hashicorp.com/agent-inject: 'true' # HERE"
    ),
    "labels.aadpodidbinding": "resources:\n  labels:\n    aadpodidbinding: admin # HERE",
    "volumeAttributes.secretName": (
        "spec:\n  volumes:\n  - name: a\n    csi:\n      driver: smb.csi.k8s.io\n"
        "      volumeAttributes:\n        secretName: other # HERE"
    ),
    "csi": "spec:\n  volumes:\n  - name: a\n    csi: # HERE\n      driver: nfs.csi.k8s.io",
    "seLinuxOptions.type": (
        "spec:\n  securityContext:\n    seLinuxOptions:\n      type: spc_t # HERE"
    ),
    "seLinuxOptions.user": (
        "spec:\n  securityContext:\n    seLinuxOptions:\n      user: root # HERE"
    ),
    "seLinuxOptions.role": ("spec:\n  securityContext:\n    seLinuxOptions:\n      role: r # HERE"),
    "runAsUser": "spec:\n  securityContext:\n    runAsUser: 0 # HERE",
    "sysctls": "spec:\n  securityContext:\n    sysctls: [{name: kernel.msgmax, value: '1'}] # HERE",
    "hostProcess": (
        "spec:\n  securityContext:\n    windowsOptions:\n      hostProcess: true # HERE"
    ),
    "mountPropagation": (
        "spec:\n  containers:\n  - volumeMounts:\n    - name: a\n      mountPath: /a\n"
        "      mountPropagation: Bidirectional # HERE"
    ),
    "hostPath": "spec:\n  volumes:\n  - name: a\n    hostPath: {path: /allowed} # HERE",
    "hostPID": "spec:\n  hostPID: true # HERE",
    "hostNetwork": "spec:\n  hostNetwork: true # HERE",
    "hostIPC": "spec:\n  hostIPC: true # HERE",
    "hostUsers": "spec:\n  hostUsers: true # HERE",
    "hostPort": (
        "spec:\n  containers:\n  - ports:\n    - containerPort: 80\n      hostPort: 80 # HERE"
    ),
    "nodeName": "spec:\n  nodeName: control-plane # HERE",
    "tolerations": "spec:\n  tolerations: # HERE\n  - operator: Exists",
    "priorityClassName": "spec:\n  priorityClassName: system-node-critical # HERE",
    "httpGet.host": (
        "spec:\n  containers:\n  - livenessProbe:\n      httpGet:\n        port: 80\n"
        "        host: 169.254.169.254 # HERE"
    ),
    "tcpSocket.host": (
        "spec:\n  containers:\n  - lifecycle:\n      postStart:\n        tcpSocket:\n"
        "          port: 80\n          host: 10.0.0.1 # HERE"
    ),
    "gitRepo": "spec:\n  volumes:\n  - name: a\n    gitRepo: {repository: 'https://h/x'} # HERE",
    "secretKeyRef": (
        "spec:\n  containers:\n  - env:\n    - name: A\n      valueFrom:\n"
        "        secretKeyRef: {name: other, key: b} # HERE"
    ),
    "secretRef": "spec:\n  containers:\n  - envFrom:\n    - secretRef: {name: other} # HERE",
    "nodePublishSecretRef": (
        "spec:\n  volumes:\n  - name: a\n    csi:\n      driver: b\n"
        "      nodePublishSecretRef: {name: other} # HERE"
    ),
    "secret": (
        "spec:\n  volumes:\n  - name: a\n    projected:\n      sources:\n"
        "      - secret: {name: other} # HERE"
    ),
    "azureFile.secretName": (
        "spec:\n  volumes:\n  - name: a\n    azureFile:\n      shareName: b\n"
        "      secretName: other # HERE"
    ),
    "imagePullSecrets": "spec:\n  imagePullSecrets: [{name: other}] # HERE",
    "volumeAttributes.secretProviderClass": (
        "spec:\n  volumes:\n  - name: a\n    csi:\n      driver: secrets-store.csi.k8s.io\n"
        "      volumeAttributes:\n        secretProviderClass: other # HERE"
    ),
    "serviceAccountName": "spec:\n  serviceAccountName: admin # HERE",
    "serviceAccount": "spec:\n  serviceAccount: admin # HERE",
    "automountServiceAccountToken": "spec:\n  automountServiceAccountToken: true # HERE",
    "serviceAccountToken": (
        "spec:\n  volumes:\n  - name: a\n    projected:\n      sources:\n"
        "      - serviceAccountToken: {path: token} # HERE"
    ),
    "podCertificate": (
        "spec:\n  volumes:\n  - name: a\n    projected:\n      sources:\n"
        "      - podCertificate: {keyType: RSA3072, signerName: a.b/c} # HERE"
    ),
    "gmsaCredentialSpec": (
        "spec:\n  securityContext:\n    windowsOptions:\n      gmsaCredentialSpec: x # HERE"
    ),
    "gmsaCredentialSpecName": (
        "spec:\n  securityContext:\n    windowsOptions:\n      gmsaCredentialSpecName: x # HERE"
    ),
    "annotations.iam.amazonaws.com/role": (
        "metadata:\n  annotations:\n    iam.amazonaws.com/role: admin # HERE"
    ),
    "labels.azure.workload.identity/use": (
        "metadata:\n  labels:\n    azure.workload.identity/use: 'true' # HERE"
    ),
    "volumes.*.host_path": "volumes:\n  /h:\n    host_path: /allowed # HERE",
    "resources.network_tier": "resources:\n  network_tier: best # HERE",
    "resources.any_of.*.network_tier": (
        "resources:\n  any_of:\n  - {cpus: 1}\n  - cpus: 2\n    network_tier: best # HERE"
    ),
    "resources.ordered.*.network_tier": (
        "resources:\n  ordered:\n  - cpus: 2\n    network_tier: best # HERE"
    ),
    "resources.priority_class": "resources:\n  priority_class: system-node-critical # HERE",
    "resources.any_of.*.priority_class": (
        "resources:\n  any_of:\n  - priority_class: system-node-critical # HERE"
    ),
    "resources.ordered.*.priority_class": (
        "resources:\n  ordered:\n  - priority_class: system-node-critical # HERE"
    ),
    "config.kubernetes.remote_identity": (
        "config:\n  kubernetes:\n    remote_identity: admin # HERE"
    ),
    "config.kubernetes.remote_identity.*": (
        "config:\n  kubernetes:\n    remote_identity:\n      prod: default\n      '*': admin # HERE"
    ),
    "workdir.url": "workdir:\n  url: http://example.com/code.git # HERE",
    "file_mounts.*": "file_mounts:\n  /a: https://me:pw@example.com/x # HERE",
    "file_mounts.*.source": (
        "file_mounts:\n  /a:\n    source: http://example.com/x # HERE\n    mode: COPY"
    ),
    "secrets.*": "secrets:\n  - secrets:DB_PASSWORD # HERE",
    "managed_secrets.*": "managed_secrets:\n  - A\n  - B: {mount_path: /b} # HERE",
    "workdir": "workdir: / # HERE",
    "--env-file": "",  # a flag; tested below
    "--secret-file": "",
}
_STORAGE = next(field for field in POD_FIELDS if "nfs" in field.names).names
TASKS |= {
    name: f"spec:\n  volumes:\n  - name: a\n    {name}: {{path: x}} # HERE"
    for name in _STORAGE
    if name not in TASKS
}


def full_task(task: str) -> str:
    """Return a complete task for an entry of TASKS."""
    if task.startswith(("spec:", "metadata:")):
        below = textwrap.indent(task, "      ")
        task = f"config:\n  kubernetes:\n    pod_config:\n{below}"
    return f"run: x\n{task}\n"


@pytest.fixture
def allowed(tmp_path: Path) -> dict[str, str]:
    """An environment whose settings allow the directory /allowed."""
    (tmp_path / "settings.yaml").write_text("host_paths: [/allowed]\n")
    return {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}


def test_dangers_table_has_test_for_every_field() -> None:
    assert TASKS.keys() == {name for field in FIELDS for name in field.names}


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task])
def test_dangers_field_is_reported_with_line(
    name: str, tmp_path: Path, allowed: dict[str, str]
) -> None:
    file, text = tmp_path / "task.yaml", full_task(TASKS[name])
    file.write_text(text)
    (report,) = check([str(file)], io.BytesIO(), allowed)
    (line,) = (at for at, line in enumerate(text.splitlines(), 1) if line.endswith("# HERE"))
    classes = {field.danger_class for field in FIELDS if name in field.names}
    danger_classes = {
        danger.danger_class for danger in report.review.dangers if danger.problem.line == line
    }
    assert danger_classes
    assert danger_classes <= classes
    assert not report.review.refused


POD_TREES = st.recursive(
    st.just(None) | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "containers", "x", "sources", "volumes", "secret", "type"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
ATTACKS: dict[str, tuple[Any, DangerClass]] = {
    "privileged": (True, DangerClass.PRIVILEGED),
    "capabilities": ({"add": ["ALL"]}, DangerClass.PRIVILEGED),
    "seccompProfile": ({"type": "Unconfined"}, DangerClass.PRIVILEGED),
    "hostNetwork": (True, DangerClass.HOST),
    "hostPath": ({"path": "/"}, DangerClass.HOST),
    "secretKeyRef": ({"name": "other", "key": "x"}, DangerClass.SECRETS),
    "secretRef": ({"name": "other"}, DangerClass.SECRETS),
    "serviceAccountName": ("admin", DangerClass.IDENTITY),
}


@given(
    attack=st.sampled_from(sorted(ATTACKS)),
    steps=st.lists(st.sampled_from(["spec", "containers", "a.b", "template", "", 0]), max_size=6),
    beside=POD_TREES,
)
def test_dangers_field_at_any_depth_of_pod_config_is_reported(
    attack: str, steps: list[str | int], beside: Any
) -> None:
    value, danger_class = ATTACKS[attack]
    tree: Any = {"beside": beside, attack: value}
    for step in steps:
        tree = [beside, tree] if step == 0 else {"beside": beside, step: tree}
    document = make_document(run="x", config={"kubernetes": {"pod_config": {"spec": tree}}})
    reported = list(dangers.in_fields(document))
    path = f".{attack}"
    matches = [
        danger
        for danger in reported
        if danger.danger_class is danger_class and f"{danger.problem.path}.".find(f"{path}.") > 0
    ]
    assert matches
    lines = document_lines(document.data)
    for danger in matches:
        line = lines[danger.problem.line - 1]
        assert any(key in line for key in (attack, "add", "type"))


def document_lines(data: Any) -> list[str]:
    return yaml.safe_dump(data, sort_keys=False).splitlines()


def test_dangers_field_behind_anchor_is_reported() -> None:
    text = """
x-a: &a {privileged: true}
run: x
config:
  kubernetes:
    pod_config:
      spec:
        containers:
          - securityContext:
              <<: *a
"""
    (document,) = read(text)
    (danger,) = dangers.in_fields(document)
    assert danger.problem.path.endswith("containers[0].securityContext.privileged")
    assert danger.problem.line


@pytest.mark.outside
def test_check_corpus_does_not_crash() -> None:
    files = sorted(CORPUS.glob("*.yaml"))
    if not files and not os.environ.get("CI"):
        pytest.skip(f"no corpus beside the checkout, at {CORPUS}")
    reports = check([str(file) for file in files], io.BytesIO(), {})
    reported = [danger for report in reports for danger in report.review.dangers]
    assert reported
    assert all(danger.problem.file for danger in reported)


@given(st.binary(max_size=200) | POD_TREES.map(lambda tree: json.dumps(tree).encode()))
def test_check_random_text_does_not_crash(text: bytes) -> None:
    for before in (b"", b"run: x\nworkdir: ", b"run: x\nfile_mounts: ", b"config: "):
        check(["-"], io.BytesIO(before + text), {})


def test_credentials_uppercase_paths_are_recognized() -> None:
    assert files.has_credentials("/home/me/.SSH/config")
    assert files.has_credentials("key.PEM")
    assert not files.has_credentials("certifi/CACERT.pem")


# The command.

HOSTILE = (
    "run: x\nconfig:\n  kubernetes:\n    pod_config:\n      spec:\n        hostNetwork: true\n"
)
PLACE = "<stdin>:6:9: warning: config.kubernetes.pod_config.spec.hostNetwork"
SAID = f"{PLACE}: shares the cluster node's network [host]\n"


def configured(sky: Command, text: str) -> Path:
    folder = Path(sky.environment["HOME"]) / ".config" / "kubectl-sky"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(text)
    return folder / "settings.yaml"


def test_validate_and_render_danger_is_warning_despite_strict(
    offline: Command,
) -> None:
    for command in (["validate"], ["render", "--user", "ann"]):
        done = offline(*command, "-", "--strict", stdin=HOSTILE)
        assert (done.returncode, done.stderr) == (0, SAID)


def test_validate_json_lists_dangers(offline: Command) -> None:
    done = offline("validate", "-", "-o", "json", stdin=HOSTILE)
    assert done.returncode == 0
    (danger,) = json.loads(done.stdout)["dangers"]
    assert danger == {
        "class": "host",
        "path": "config.kubernetes.pod_config.spec.hostNetwork",
        "file": "<stdin>",
        "document": 0,
        "line": 6,
        "column": 9,
        "message": "shares the cluster node's network",
        "refused": False,
    }


@pytest.mark.parametrize("command", ["validate", "render"])
def test_refuse_setting_makes_danger_error_with_position(offline: Command, command: str) -> None:
    file = configured(offline, "refuse: [host]\n")
    done = offline(command, "-", stdin=HOSTILE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("<stdin>:6:9: config.kubernetes.pod_config.spec.hostNetwork: ")
    assert f"refused by settings {file}: refuse" in done.stderr
    configured(offline, "refuse: [secrets]\n")
    assert offline(command, "-", stdin=HOSTILE).returncode == 0


def test_refuse_setting_with_unknown_class_is_error(offline: Command) -> None:
    configured(offline, "refuse: [hosts]\n")
    done = offline("validate", "-", stdin="run: x\n")
    assert done.returncode == 2
    assert "settings.yaml:1:10: refuse[0]" in done.stderr


@pytest.mark.parametrize("path", ["/etc", "/allowed/../etc", "/allowedly"])
def test_host_path_in_pod_config_not_in_settings_is_refused(offline: Command, path: str) -> None:
    text = full_task(TASKS["hostPath"].replace("/allowed", path))
    configured(offline, "host_paths: [/allowed]\n")
    for command in ("validate", "render"):
        done = offline(command, "-", stdin=text)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("<stdin>:8:11: config.kubernetes.pod_config.spec.volumes[0]")
        assert f"the settings do not let tasks mount {path}" in done.stderr


def test_local_paths_outside_task_folder_are_warned(offline: Command, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside, project / "code"):
        folder.mkdir()
        (folder / "a").write_text("a")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("key")
    (project / "link").symlink_to(outside)
    (project / "task.yaml").write_text(
        "run: x\nworkdir: project/link\nfile_mounts:\n  /a: ~/.ssh\n  /b: project/code\n"
        "  /c: project/code/../../outside/a\n"
    )
    done = offline("render", "project/task.yaml", "--user", "ann")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"project/task.yaml:2:1: warning: workdir: sends {outside}, outside the task's folder"
        " [local_files]",
        'project/task.yaml:4:3: warning: file_mounts."/a": '.replace('"/a"', "/a")
        + f"sends credentials: {tmp_path}/.ssh [local_files]",
        f"project/task.yaml:6:3: warning: file_mounts./c: sends {outside}/a, outside the task's"
        " folder [local_files]",
    ]


def test_file_mount_with_nul_character_is_error(offline: Command) -> None:
    done = offline("render", "-", stdin='run: x\nfile_mounts:\n  /a: "b\\0c"\n')
    assert (done.returncode, done.stdout) == (2, "")
    assert "<stdin>:3:7: file_mounts./a: cannot be read: embedded null byte" in done.stderr


def test_workdir_link_to_outside_is_error(offline: Command, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "passwd").symlink_to("/etc/passwd")
    done = offline("render", "-", "--user", "ann", stdin="run: x\nworkdir: code\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "<stdin>:2:10: workdir: passwd is a link to /etc/passwd" in done.stderr


def test_workdir_with_credentials_is_warned_or_refused(offline: Command, tmp_path: Path) -> None:
    for name in (".aws/credentials", "deploy.pem", "main.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    done = offline("render", "-", "--user", "ann", stdin="run: x\nworkdir: code\n")
    assert done.returncode == 0
    assert done.stderr == (
        "<stdin>:2:1: warning: workdir: sends credentials: .aws, deploy.pem [local_files]\n"
    )
    configured(offline, "refuse: [local_files]\n")
    done = offline("render", "-", "--user", "ann", stdin="run: x\nworkdir: code\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "<stdin>:2:1: workdir: sends credentials: .aws, deploy.pem; refused" in done.stderr


def test_env_file_outside_task_folder_is_warned(offline: Command, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "task.yaml").write_text("run: x\n")
    (tmp_path / "all.env").write_text("A=1\n")
    for flag in ("--env-file", "--secret-file"):
        done = offline("render", "project/task.yaml", "--user", "ann", flag, "all.env")
        assert done.stderr == (
            f"{flag}: warning: all.env: reads {tmp_path}/all.env, outside the task's folder"
            " [local_files]\n"
        )


@pytest.mark.parametrize(
    "url",
    [
        "ssh://-oProxyCommand=touch${IFS}x/y",
        "ssh://git@-oProxyCommand=x/y",
        "ssh://%2DoProxyCommand=x/y",
        "-oProxyCommand=x@host:y",
        "git@-oProxyCommand=x:y",
        "git@host:--upload-pack=x",
        "--upload-pack=x",
        "ext::sh -c x",
        "ext::sh%20-c%20x",
        "fd::3",
        "file:///etc",
        "/etc",
        "ssh://me:pw@host/x",
        "https://h\n-x/y",
    ],
)
def test_git_url_with_options_or_programs_is_refused(offline: Command, url: str) -> None:
    task = json.dumps({"run": "x", "workdir": {"url": url}}, indent=1)
    for command in ("validate", "render"):
        done = offline(command, "-", stdin=task)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.search(r"^<stdin>:4:\d+: workdir.url: ", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    "url",
    [
        "ssh://-oProxyCommand=touch${IFS}owned/x",
        "-oProxyCommand=x@h:y",
        "--help",
        "git@h:--x",
        "ext::touch owned",
        "file:///",
        "/",
    ],
)
def test_clone_script_hostile_url_is_refused(url: str, tmp_path: Path) -> None:
    """The script also refuses URLs that come from a template or a variable."""
    script = Path(__file__).parents[2] / "runtime" / "clone.sh"
    (tmp_path / "repository.txt").write_text(f"{url}\nHEAD\n")
    (tmp_path / "sky_workdir").mkdir()
    program = f'fail() {{ shift; echo "FAILED $*"; exit 1; }}; dir=$1 home=$1; . {script}'
    done = subprocess.run(
        ["sh", "-c", program, "sh", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.practice_only
def test_submit_prints_dangers_before_sending(sky: Command) -> None:
    done = sky("submit", "-", "--detach", "-o", "json", stdin=HOSTILE)
    assert done.stderr.startswith(SAID)
    if done.returncode == 0:  # a cluster may forbid it
        (danger,) = json.loads(done.stdout)["dangers"]
        assert (danger["class"], danger["line"]) == ("host", 6)
    configured(sky, "refuse: [host]\n")
    done = sky("submit", "-", "--detach", stdin=HOSTILE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "refused by settings" in done.stderr
