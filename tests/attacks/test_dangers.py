"""Task files that reach for the cluster node, other Secrets, identities and the user's files."""

import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import dangers, files
from kubectl_sky.spec.danger_fields import METADATA, POD_FIELDS, ROWS, DangerClass
from kubectl_sky.submitting.validate import check
from tests.e2e.command import PROGRAM, Command, InProcess
from tests.spec.documents import make_document, read
from tests.spec.test_corpus import CORPUS

# A dangerous field, and the line of a task with it. One that begins with "spec:" or "metadata:" is
# in a pod_config.
TASKS = {
    "privileged": "spec: {containers: [{securityContext: {privileged: true}}]}",
    "allowPrivilegeEscalation": (
        "spec: {initContainers: [{name: a, image: b, "
        "securityContext: {allowPrivilegeEscalation: true}}]}"
    ),
    "securityContext": "spec: {containers: [{securityContext: null}]}",
    "seccompProfile": "spec: {securityContext: {seccompProfile: null}}",
    "appArmorProfile": "spec: {securityContext: {appArmorProfile: null}}",
    "capabilities": "spec: {containers: [{securityContext: {capabilities: null}}]}",
    "capabilities.drop": "spec: {containers: [{securityContext: {capabilities: {drop: null}}}]}",
    "add": (
        "spec: {containers: [{securityContext: {capabilities: {drop: [ALL], add: [SYS_ADMIN]}}}]}"
    ),
    "procMount": "spec: {containers: [{securityContext: {procMount: Unmasked}}]}",
    "type": "spec: {securityContext: {seccompProfile: {type: Unconfined}}}",
    "container.apparmor.security.beta.kubernetes.io/": (
        "metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/task: unconfined}}"
    ),
    "container.seccomp.security.alpha.kubernetes.io/": (
        "metadata: {annotations: {container.seccomp.security.alpha.kubernetes.io/task: unconfined}}"
    ),
    "seccomp.security.alpha.kubernetes.io/": (
        "metadata: {annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}}"
    ),
    "seccomp-profile.kubernetes.cri-o.io": (
        "metadata: {annotations: {seccomp-profile.kubernetes.cri-o.io: unconfined}}"
    ),
    "io.kubernetes.cri-o.": ("metadata: {annotations: {io.kubernetes.cri-o.Devices: /dev/sda}}"),
    "io.katacontainers.": (
        "metadata: {annotations: {io.katacontainers.config.hypervisor.path: /bin/sh}}"
    ),
    "cdi.k8s.io/": "metadata: {annotations: {cdi.k8s.io/x: nvidia.com/gpu=all}}",
    "devices.nri.io": "metadata: {annotations: {devices.nri.io: x}}",
    "mounts.nri.io": "metadata: {annotations: {mounts.nri.io: x}}",
    "cdi-devices.nri.io": (
        "config: {kubernetes: {custom_metadata: {annotations: {cdi-devices.nri.io: x}}}}"
    ),
    "k8s.v1.cni.cncf.io/": ("metadata: {annotations: {k8s.v1.cni.cncf.io/networks: host}}"),
    "v1.multus-cni.io/": ("metadata: {annotations: {v1.multus-cni.io/default-network: host}}"),
    "vault.hashicorp.com/agent-inject": (
        "metadata: {annotations: {vault.hashicorp.com/agent-inject: 'true'}}"
    ),
    "aadpodidbinding": "resources: {labels: {aadpodidbinding: admin}}",
    "csi": "spec: {volumes: [{name: a, csi: {driver: nfs.csi.k8s.io}}]}",
    "user": "spec: {securityContext: {seLinuxOptions: {user: root}}}",
    "role": "spec: {securityContext: {seLinuxOptions: {role: r}}}",
    "runAsUser": "spec: {securityContext: {runAsUser: 0}}",
    "sysctls": "spec: {securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}}",
    "hostProcess": "spec: {securityContext: {windowsOptions: {hostProcess: true}}}",
    "mountPropagation": (
        "spec: {containers: [{volumeMounts: [{name: a, mountPath: "
        "/a, mountPropagation: Bidirectional}]}]}"
    ),
    "hostPath": "spec: {volumes: [{name: a, hostPath: {path: /allowed}}]}",
    "hostPID": "spec: {hostPID: true}",
    "hostNetwork": "spec: {hostNetwork: true}",
    "hostIPC": "spec: {hostIPC: true}",
    "hostUsers": "spec: {hostUsers: true}",
    "hostPort": "spec: {containers: [{ports: [{containerPort: 80, hostPort: 80}]}]}",
    "nodeName": "spec: {nodeName: control-plane}",
    "tolerations": "spec: {tolerations: [{operator: Exists}]}",
    "priorityClassName": "spec: {priorityClassName: system-node-critical}",
    "host": ("spec: {containers: [{livenessProbe: {httpGet: {port: 80, host: 169.254.169.254}}}]}"),
    "secretKeyRef": (
        "spec: {containers: [{env: [{name: A, valueFrom: {secretKeyRef: {name: other, key: b}}}]}]}"
    ),
    "secretRef": "spec: {containers: [{envFrom: [{secretRef: {name: other}}]}]}",
    "nodePublishSecretRef": (
        "spec: {volumes: [{name: a, csi: {driver: b, nodePublishSecretRef: {name: other}}}]}"
    ),
    "secret": "spec: {volumes: [{name: a, projected: {sources: [{secret: {name: other}}]}}]}",
    "imagePullSecrets": "spec: {imagePullSecrets: [{name: other}]}",
    "secretProviderClass": (
        "spec: {volumes: [{name: a, csi: {driver: secrets-store.csi.k8s.io, "
        "volumeAttributes: {secretProviderClass: other}}}]}"
    ),
    "serviceAccountName": "spec: {serviceAccountName: admin}",
    "serviceAccount": "spec: {serviceAccount: admin}",
    "automountServiceAccountToken": "spec: {automountServiceAccountToken: true}",
    "serviceAccountToken": (
        "spec: {volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: token}}]}}]}"
    ),
    "podCertificate": (
        "spec: {volumes: [{name: a, projected: {sources: [{podCertificate: "
        "{keyType: RSA3072, signerName: a.b/c}}]}}]}"
    ),
    "gmsaCredentialSpec": "spec: {securityContext: {windowsOptions: {gmsaCredentialSpec: x}}}",
    "gmsaCredentialSpecName": (
        "spec: {securityContext: {windowsOptions: {gmsaCredentialSpecName: x}}}"
    ),
    "iam.amazonaws.com/role": ("metadata: {annotations: {iam.amazonaws.com/role: admin}}"),
    "azure.workload.identity/use": ("metadata: {labels: {azure.workload.identity/use: 'true'}}"),
    "volumes.*.host_path": "volumes: {/h: {host_path: /allowed}}",
    "resources.network_tier": "resources: {network_tier: best}",
    "resources.any_of.*.network_tier": (
        "resources: {any_of: [{cpus: 1}, {cpus: 2, network_tier: best}]}"
    ),
    "resources.ordered.*.network_tier": "resources: {ordered: [{cpus: 2, network_tier: best}]}",
    "resources.priority_class": "resources: {priority_class: system-node-critical}",
    "resources.any_of.*.priority_class": (
        "resources: {any_of: [{priority_class: system-node-critical}]}"
    ),
    "resources.ordered.*.priority_class": (
        "resources: {ordered: [{priority_class: system-node-critical}]}"
    ),
    "config.kubernetes.remote_identity": "config: {kubernetes: {remote_identity: admin}}",
    "config.kubernetes.remote_identity.*": (
        "config: {kubernetes: {remote_identity: {prod: default, '*': admin}}}"
    ),
    "workdir.url": "workdir: {url: 'http://example.com/code.git'}",
    "file_mounts.*": "file_mounts: {/a: 'https://me:pw@example.com/x'}",
    "file_mounts.*.source": "file_mounts: {/a: {source: 'http://example.com/x', mode: COPY}}",
    "secrets.*": "secrets: ['secrets:DB_PASSWORD']",
    "managed_secrets.*": "managed_secrets: [A, {B: {mount_path: /b}}]",
    "workdir": "workdir: /",
    "--env-file": "",  # a flag; tested below
    "--secret-file": "",  # a flag; tested below
}


def full_task(task: str) -> str:
    """Return a complete task for an entry of TASKS, which is its second line."""
    if task.startswith(("spec:", "metadata:")):
        task = f"config: {{kubernetes: {{pod_config: {{{task}}}}}}}"
    return f"run: x\n{task}\n"


@pytest.fixture
def allowed(tmp_path: Path) -> dict[str, str]:
    """An environment whose settings allow the directory /allowed."""
    (tmp_path / "settings.yaml").write_text("host_paths: [/allowed]\n")
    return {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}


def test_dangers_table_has_test_for_every_field() -> None:
    fields = {name for names in POD_FIELDS.values() for name in names}
    prefixes = {prefix for rows in METADATA.values() for names in rows for prefix in names}
    assert fields | prefixes | {name for row in ROWS for name in row.names} <= TASKS.keys()


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task])
def test_dangers_field_is_reported_with_line(
    name: str, tmp_path: Path, allowed: dict[str, str]
) -> None:
    file = tmp_path / "task.yaml"
    file.write_text(full_task(TASKS[name]))
    (report,) = check([str(file)], io.BytesIO(), allowed)
    classes = {item for item, names in POD_FIELDS.items() if name in names}
    classes |= {row.danger_class for row in ROWS if name in row.names}
    found = report.review.dangers
    assert {danger.problem.line for danger in found} == {2}
    assert not classes or classes & {danger.danger_class for danger in found}
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
    classes = {danger.danger_class for danger in reported}
    # A field that is not known is reported itself.
    assert danger_class in classes or (classes and {"a.b", "template", ""} & {*steps})
    assert all(danger.problem.line for danger in reported)


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
def test_check_random_text_is_one_report(text: bytes) -> None:
    for before in (b"", b"run: x\nworkdir: ", b"run: x\nfile_mounts: ", b"config: "):
        assert len(check(["-"], io.BytesIO(before + text), {})) == 1


def test_credentials_uppercase_paths_are_recognized() -> None:
    assert files.has_credentials("/home/me/.SSH/config")
    assert files.has_credentials("key.PEM")
    assert not files.has_credentials("certifi/CACERT.pem")


# The command.

HOSTILE = (
    "run: x\nconfig:\n  kubernetes:\n    pod_config:\n      spec:\n        hostNetwork: true\n"
)
POSITION = "<stdin>:6:9: warning: config.kubernetes.pod_config.spec.hostNetwork"
WARNING = f"{POSITION}: shares the cluster node's network [host]\n"


def configured(sky: Command, text: str) -> Path:
    folder = Path(sky.environment["HOME"]) / ".config" / "kubectl-sky"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(text)
    return folder / "settings.yaml"


def test_validate_and_render_danger_is_warning_despite_strict(offline: Command) -> None:
    for command in (["validate"], ["render", "--user", "ann"]):
        done = offline(*command, "-", "--strict", stdin=HOSTILE)
        assert (done.returncode, done.stderr) == (0, WARNING)


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
        assert done.stderr.startswith("<stdin>:2:63: config.kubernetes.pod_config")
        assert f"the settings do not let tasks mount {path}" in done.stderr


def test_local_paths_outside_task_folder_are_warned(offline: Command, tmp_path: Path) -> None:
    project = tmp_path / "project"
    outside = tmp_path / "outside"
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


def test_current_folder_is_the_project_of_a_file_in_a_folder_of_it(
    offline: Command, tmp_path: Path
) -> None:
    configs = tmp_path / "project" / "configs"
    configs.mkdir(parents=True)
    (configs / "train.yaml").write_text("run: x\nworkdir: .\nfile_mounts: {/a: ..}\n")
    in_project = InProcess(PROGRAM, offline.environment, tmp_path / "project")
    done = in_project("validate", "configs/train.yaml")
    assert "workdir" not in done.stderr
    assert f"file_mounts./a: sends {tmp_path}, outside the task's folder" in done.stderr


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
    program = f'fail() {{ shift; echo "FAILED $*"; exit 1; }}; dir=$1; cd sky_workdir; . {script}'

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
    assert done.stderr.startswith(WARNING)
    if done.returncode == 0:  # a cluster may forbid it
        (danger,) = json.loads(done.stdout)["dangers"]
        assert (danger["class"], danger["line"]) == ("host", 6)
    configured(sky, "refuse: [host]\n")
    done = sky("submit", "-", "--detach", stdin=HOSTILE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "refused by settings" in done.stderr


def test_local_path_that_does_not_exist_has_one_line(offline: Command, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("run: a\nworkdir: /nowhere\nfile_mounts: {/a: ~x/y}\n")
    err = offline("validate", "task.yaml").stderr
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "task.yaml:2:10: workdir: no such file or folder",
        "task.yaml:3:19: file_mounts./a: home folder not found",
    ]


def test_workdir_that_is_a_loop_of_links_has_one_line(offline: Command, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "task.yaml").write_text("run: a\nworkdir: loop\n")
    err = offline("validate", "task.yaml").stderr
    assert err.startswith("task.yaml:2:10: workdir: cannot be read: ")
    assert err.count("\n") == 1
