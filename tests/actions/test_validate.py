"""Validate refuses what submit refuses, and warns of the rest."""

import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from kubectl_sky.actions.documents import REQUEST
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, InvalidFiles, Problem, Refused, Unreachable, UserError
from kubectl_sky.spec import service, unsupported
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.render import render_files
from kubectl_sky.submitting.taskfile import Source, prepare
from kubectl_sky.submitting.validate import check
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, owners
from kubectl_sky.words.facts import Facts
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

MOUNT = "  /a: {source: hf://buckets/me/b, mode: MOUNT}\n"
WRONG = (
    "resources: {accelerators: tpu-v2-8}\n"
    f"file_mounts:\n{MOUNT}"
    "  /b: {name: box, store: nebius}\n  /c: {source: r2://box, mode: COPY}\n"
    "run: echo\n"
)


def checked(tmp_path: Path, text: str, settings: str = "") -> list[Problem]:
    file = tmp_path / "task.yaml"
    file.write_text(text)
    (tmp_path / "settings.yaml").write_text(settings)
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    (report,) = check([str(file)], io.BytesIO(), environ)
    return list(report.problems)


def drafted(tmp_path: Path, strict: bool = False) -> tuple[Problem, ...]:
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    path = str(tmp_path / "task.yaml")
    return prepare(Source(path, Overrides(), environ, io.BytesIO(), strict), UI()).warnings


def positions(problems: Sequence[Problem]) -> list[tuple[int, str]]:
    return [(problem.line, problem.path) for problem in problems]


REFUSED = [
    (1, "resources.accelerators"),
    (3, "file_mounts./a"),
    (4, "file_mounts./b"),
    (5, "file_mounts./c"),
]


def test_validate_refuses_fields_refused_by_submit(tmp_path: Path) -> None:
    problems = checked(tmp_path, WRONG)
    assert positions(problems) == REFUSED
    assert {problem.severity for problem in problems} == {"error"}
    assert [problem.message for problem in problems] == [
        '"tpu-v2-8": GKE has no TPU of this name for pods',
        "no CSI driver or PVC is configured to mount hf://buckets/me/b (mode: MOUNT)",
        'the endpoint of store "nebius" is not set',
        'the endpoint of store "r2" is not set',
    ]
    with pytest.raises(InvalidFiles) as caught:
        drafted(tmp_path)
    assert positions(caught.value.problems) == REFUSED
    assert {problem.severity for problem in caught.value.problems} == {"error"}


MISSING = (
    "workdir: nosuch\nsecrets: {KEY: null}\nenvs: {SIZE: null}\n"
    "file_mounts:\n  /a: ./missing\n  /b: {name: box, store: r2}\n  /c/$SIZE: ./$SIZE\n"
    "  /d: {source: ./folder}\nrun: x\n"
)


def test_missing_values_buckets_and_local_paths_are_told_at_once(tmp_path: Path) -> None:
    everywhere = [
        (1, "workdir", "no such file or folder"),
        (5, "file_mounts./a", "no such file or folder"),
        (6, "file_mounts./b", 'the endpoint of store "r2" is not set'),
        (8, "file_mounts./d", "not supported: the bucket has no name"),
        (8, "file_mounts./d.source", "no such file or folder"),
    ]
    problems = checked(tmp_path, MISSING)
    assert [(item.line, item.path, item.message) for item in problems] == everywhere
    with pytest.raises(InvalidFiles) as caught:
        drafted(tmp_path)
    unset = [(2, "secrets.KEY", "the value is not set"), (3, "envs.SIZE", "the value is not set")]
    found = [(item.line, item.path, item.message) for item in caught.value.problems]
    assert found == sorted([*everywhere, *unset])


def test_validate_values_not_set_are_a_note_with_the_flags(run: Run, tmp_path: Path) -> None:
    text = "secrets: {KEY: null, GIVEN: x}\nenvs: {SIZE: null}\nrun: x\n"
    (tmp_path / "task.yaml").write_text(text)
    note = "task.yaml: submit needs --env SIZE=… --secret KEY\n"
    assert run("validate", "task.yaml") == (0, "1 file valid\n", note)
    (tmp_path / "task.yaml").write_text(f"{text}rnu: x\n")
    code, _, err = run("validate", "task.yaml")
    assert (code, err.count("\n")) == (2, 2) and err.endswith(note)


def test_validate_no_local_files_looks_for_none(run: Run, tmp_path: Path) -> None:
    text = "workdir: nosuch\nfile_mounts: {/a: ./missing}\nrun: x\n"
    (tmp_path / "task.yaml").write_text(text)
    assert run("validate", "task.yaml")[0] == 2
    assert run("validate", "--no-local-files", "task.yaml") == (0, "1 file valid\n", "")
    (tmp_path / "task.yaml").write_text(f"{text}resources: {{accelerators: tpu-v2-8}}\n")
    code, _, err = run("validate", "--no-local-files", "task.yaml")
    assert (code, err.count("\n"), "accelerators" in err) == (2, 1, True)


def test_validate_bucket_with_settings_has_no_warning(tmp_path: Path) -> None:
    settings = "stores: {hf: {claims: {me/b: pvc}}}\n"
    assert checked(tmp_path, f"file_mounts:\n{MOUNT}run: echo\n", settings) == []
    assert checked(tmp_path, f"file_mounts:\n{MOUNT}run: echo\n", "bucket_mode: copy\n") == []


def test_validate_error_of_schema_hides_no_other_problem(tmp_path: Path) -> None:
    problems = checked(tmp_path, f"{WRONG}rnu: x\nnum_nodes: [x]\nenvs: {{1: x}}\n")
    assert positions(problems) == [*REFUSED, (7, "rnu"), (8, "num_nodes"), (9, "envs.1")]
    everything = checked(tmp_path, MISSING)
    (wrong,) = set(checked(tmp_path, f"{MISSING}num_nodes: none\n")) - set(everything)
    assert wrong.path == "num_nodes"
    with pytest.raises(InvalidFiles) as caught:
        drafted(tmp_path)
    assert {"the value is not set", "no such file or folder"} < {
        item.message for item in caught.value.problems
    }


def test_validate_invalid_document_hides_no_other_document(tmp_path: Path) -> None:
    text = (
        "name: a\nworkdir: nosuch\nrun: x\n---\n- x\n---\nname: c\nrun: *y\n---\n"
        "name: d\nrunn: x\n---\nname: e\nrun: |{\n"
    )
    places = [(2, "workdir"), (5, ""), (8, ""), (11, "runn"), (14, "")]
    assert positions(checked(tmp_path, text)) == places
    with pytest.raises(InvalidFiles) as caught:
        drafted(tmp_path)
    assert positions(caught.value.problems) == places
    assert [item.document for item in caught.value.problems] == [1, 2, 3, 4, 5]


def test_validate_missing_programs_are_warning_or_error_if_strict(tmp_path: Path) -> None:
    (warning,) = checked(tmp_path, "run: |\n  git pull\n")
    assert str(warning).partition("task.yaml:")[2].startswith("2:3: run: warning: the default")
    assert drafted(tmp_path) == (warning,)
    with pytest.raises(InvalidFiles, match="has no git"):
        drafted(tmp_path, strict=True)


SCRIPTS = [
    ("  if true; then\n    echo\n  done\n", "4:3", "syntax error near unexpected token `done'"),
    ("  echo a\n\n  echo 'b\n", "4:3", "unexpected EOF while looking for matching `''"),
    ("  true\n    cat <<EOF\n  a\n", "4:3", "here-document delimited by end-of-file"),
    ("  true\n    python a\n  date\n", "3:5", "a failure of `python` goes unnoticed"),
]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(("script", "position", "text"), SCRIPTS)
@pytest.mark.parametrize("field", ["setup", "run"])
def test_validate_faulty_script_is_warning_or_error_if_strict(
    tmp_path: Path, field: str, script: str, position: str, text: str
) -> None:
    (warning,) = checked(tmp_path, f"{field}: |\n{script}")
    assert f"task.yaml:{position}: {field}: warning: " in str(warning)
    assert text in warning.message
    assert drafted(tmp_path) == (warning,)
    with pytest.raises(InvalidFiles, match=re.escape(text)):
        drafted(tmp_path, strict=True)


def test_validate_call_of_git_is_fine_if_skyignore_includes_git_folder(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    task = f"workdir: {tmp_path}/code\nresources: {{image_id: a}}\nrun: git rev-parse HEAD\n"
    assert [problem.path for problem in checked(tmp_path, task)] == ["run"]
    (tmp_path / "code" / ".skyignore").write_text("data\n!.git\n")
    assert checked(tmp_path, task) == []


def test_validate_script_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profile").write_text(f"touch {tmp_path}/profile-ran\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "profile"))
    script = f"touch {tmp_path}/ran; x=$(touch {tmp_path}/ran); eval touch {tmp_path}/ran"
    assert checked(tmp_path, f"run: |\n  {script}\n") == []
    assert not list(tmp_path.glob("*ran"))


def test_validate_without_bash_skips_syntax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checked(tmp_path, "run: |\n  if true\n") == []


def test_validate_on_server_does_not_read_scripts() -> None:
    text = b"run: |\n  git pull\n  if python a\n"
    (report,) = check([REQUEST], io.BytesIO(text), {}, local_files="refuse")
    assert report.problems == ()
    source = Source(REQUEST, Overrides(), {}, io.BytesIO(text), local_files=False)
    assert prepare(source, UI()).warnings == ()


def test_validate_on_server_reads_no_batch_script() -> None:
    text = b"#!/bin/bash\n#SBATCH --nodes=2\nsrun hostname\n"
    (report,) = check([REQUEST], io.BytesIO(text), {}, local_files="refuse")
    assert [problem.path for problem in report.problems] == [""]
    assert "expected fields" in report.problems[0].message


@pytest.mark.parametrize("settings", ["image: base:1\n", "defaults: skypilot\n"])
def test_validate_image_in_settings_has_no_program_warning(tmp_path: Path, settings: str) -> None:
    assert checked(tmp_path, "run: |\n  git pull\n", settings) == []
    assert drafted(tmp_path) == ()


TOO_LARGE = f"run: |\n  echo {'x' * 900_000}\n"
UNFIT = (
    "resources: {job_recovery: FAILOVER}\nrun: x\nconfig: {kubectl_sky: {backend: appwrapper}}\n"
)
SECOND = "name: both\n---\nrun: x\n---\nrun: x\nworkdir: nosuch\n"


@pytest.mark.parametrize(
    ("text", "line", "field", "message"),
    [
        ("run: x\nworkdir: nosuch\n", 2, "workdir", "no such file or folder"),
        ("run: x\nfile_mounts: {/a: nosuch}\n", 2, "file_mounts./a", "no such file or folder"),
        ("run: x\nworkdir: task.yaml\n", 2, "workdir", "is a file"),
        (TOO_LARGE, 1, "run", "a ConfigMap can hold"),
        (UNFIT, 3, "config.kubectl_sky.backend", 'backend "appwrapper" cannot run task'),
        (SECOND, 6, "workdir", "no such file or folder"),
    ],
    ids=["workdir", "file_mount", "file", "script", "backend", "second document"],
)
def test_validate_refuses_what_submit_refuses_without_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, field: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (problem,) = [item for item in checked(tmp_path, text) if item.severity == "error"]
    assert (problem.line, problem.path) == (line, field)
    assert message in problem.message


def test_validate_backend_of_settings_that_does_not_fit_is_error_of_file(tmp_path: Path) -> None:
    text = UNFIT.partition("config:")[0]
    _, problem = sorted(
        checked(tmp_path, text, "backend: appwrapper\n"), key=lambda item: -item.line
    )
    assert (problem.line, problem.path) == (0, "")
    assert 'backend "appwrapper" cannot run task' in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "run: x\nenvs: {DIR: null}\nworkdir: $DIR\n",
        "run: x\nenvs: {DIR: null}\nfile_mounts: {/a: $DIR/b}\n",
        "run: x\nenvs: {DIR: null}\nfile_mounts: {/$DIR: nosuch}\n",
        "run: x\nenvs: {A: null}\nsecrets: {B: null}\n",
    ],
)
def test_validate_values_that_are_not_set_are_no_error(tmp_path: Path, text: str) -> None:
    assert checked(tmp_path, text) == []


def test_validate_credentials_in_workdir_are_refused_by_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "key.pem").write_text("x")
    text = "run: x\nworkdir: code\n"
    (problem,) = checked(tmp_path, text, "refuse: [local_files]\n")
    assert "sends credentials: key.pem" in problem.message
    assert checked(tmp_path, text) == []


SCALED = (
    "service: {readiness_probe: /, replica_policy:"
    " {min_replicas: 1, max_replicas: 3, target_qps_per_replica: 2}}\n"
    "resources: {ports: 80}\nrun: x\n"
)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"file_mounts:\n{MOUNT}run: x\n", "use `submit` with --bucket-mode copy (it is"),
        ("run: x\nresources: {image_id: 'docker:$IMAGE'}\n", "write the image"),
        (
            "run: x\nconfig: {kubernetes: {ports: ingress}}\nresources: {ports: 80}\n",
            "or set config.kubectl_sky.expose: loadbalancer",
        ),
    ],
)
def test_validate_hints_name_no_flag_that_it_lacks(tmp_path: Path, text: str, hint: str) -> None:
    (problem,) = checked(tmp_path, text)
    assert hint in problem.hint
    own_flags = re.split("`serve up`|`submit`", problem.hint)[0]
    assert re.findall(r"--[a-z-]+", own_flags) == []


LIVE = """\
name: hello
run: echo hello
"""


def quota(name: str, **hard: str) -> dict[str, object]:
    """Return a ResourceQuota of which nothing is used."""
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    metadata = {"name": name}
    base = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    return {**base, "spec": {"hard": hard}, "status": status}


def live(run: Run, text: str, *flags: str) -> tuple[int, str]:
    """Validate a file against the cluster; return the exit code and stderr."""
    Path("task.yaml").write_text(text)
    code, out, err = run("validate", "--live", "task.yaml", *flags)
    assert ("1 file valid" in out) == (code == 0)
    return code, err


def test_validate_live_of_valid_task_sends_only_dry_runs(api: FakeCluster, run: Run) -> None:
    assert live(run, LIVE)[0] == 0
    assert api.writes
    assert all(text.endswith("(dry run)") for text in api.writes)
    assert api.names() == []


def test_validate_without_live_sends_no_request(api: FakeCluster, run: Run) -> None:
    Path("task.yaml").write_text(LIVE)
    assert run("validate", "task.yaml", "-n", "team")[0] == 0
    assert api.requests == []


def test_validate_live_pod_refused_by_admission_is_error(api: FakeCluster, run: Run) -> None:
    api.before("create pods", lambda: 422)
    code, err = live(run, LIVE)
    assert code == 3
    assert err.startswith("task.yaml: ")


@pytest.mark.parametrize("right", ["create jobs", "create configmaps", "patch configmaps"])
def test_validate_live_without_right_names_it(api: FakeCluster, run: Run, right: str) -> None:
    api.forbidden.add(right)
    code, err = live(run, LIVE)
    assert code == 3
    assert right.split()[1] in err
    assert right.split()[0] in err
    assert api.names() == []


def test_validate_live_reports_all_refusals(api: FakeCluster, run: Run) -> None:
    api.put(quota("few", pods="0"))
    api.put(quota("none", **{"requests.cpu": "0"}))
    api.forbidden |= {"create jobs", "patch configmaps"}
    code, err = live(run, LIVE + "volumes: {/data: {size: 1}}\n")
    assert code == 2, "the missing StorageClass is no matter of the cluster's rules alone"

    lines = err.splitlines()
    assert all(line.startswith("task.yaml") for line in lines), err
    for reason in (
        "the cluster has no StorageClass",
        "quota few is too small: pods: requested 1, used 0 of 0",
        "quota none ",
        "you may not create jobs.batch in namespace default",
        "you may not patch configmaps in namespace default",
    ):
        assert sum(reason in line for line in lines) == 1, (reason, err)


def test_validate_live_pod_over_quota_is_reported_once(api: FakeCluster, run: Run) -> None:
    api.put(quota("few", pods="0"))

    def refuse() -> None:  # as the API server's admission does
        raise Refused("quota few is too small: pods: requested 1, used 0 of 0")

    api.before("create pods", refuse)
    code, err = live(run, LIVE)
    assert (code, err.count("quota few is too small")) == (3, 1)


REFERENCES = """\
config:
  kubernetes:
    pod_config:
      spec:
        imagePullSecrets: [{name: pull}]
        containers:
        - envFrom: [{secretRef: {name: login}}, {configMapRef: {name: sizes, optional: true}}]
          env: [{name: A, valueFrom: {configMapKeyRef: {name: colours, key: a}}}]
        volumes:
        - {name: a, secret: {secretName: certificates}}
        - {name: b, persistentVolumeClaim: {claimName: disk}}
        - {name: c, projected: {sources: [{secret: {name: token}}]}}
"""


def test_validate_live_notes_missing_objects_of_pod(api: FakeCluster, run: Run) -> None:
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}})
    api.forbidden.add("get persistentvolumeclaims")
    code, err = live(run, LIVE + "secrets: {X: y}\n" + REFERENCES)
    assert code == 0, err
    missing = re.findall(r'task.yaml: (\S+ "\S+") not found .*; the pods do not start', err)
    assert sorted(missing) == ['ConfigMap "colours"', 'Secret "certificates"', 'Secret "login"']


def test_validate_live_without_secret_exits_2(run: Run) -> None:
    code, err = live(run, LIVE + "secrets: [secrets:DB_LOGIN]\n")
    assert code == 2
    assert 'Secret "db-login" not found in namespace "default"' in err


def test_validate_live_cluster_that_does_not_answer_exits_3(api: FakeCluster, run: Run) -> None:
    for kind in (kinds.JOB, kinds.CONFIG_MAP, kinds.POD, kinds.SELF_SUBJECT_REVIEW):
        for number in range(1, 9):
            api.before(f"create {kind.plural}", lambda: 401, number)
    Path("task.yaml").write_text(LIVE)
    code, out, err = run("validate", "--live", "task.yaml")
    assert (code, out) == (3, "")
    assert err.startswith("error: ")


def test_validate_live_without_kubeconfig_is_no_problem_of_file(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(connection: object) -> None:
        raise ClusterError("no kubeconfig")

    monkeypatch.setattr(Session, "connect", refuse)
    Path("task.yaml").write_text(LIVE)
    assert run("validate", "--live", "task.yaml") == (3, "", "error: no kubeconfig\n")


UNREACHABLE = "warning: not checked against the cluster: no kubeconfig; run x"


def test_validate_live_wrong_file_without_cluster_exits_2(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(connection: object) -> None:
        raise ClusterError("no kubeconfig", "run x")

    monkeypatch.setattr(Session, "connect", refuse)
    Path("task.yaml").write_text(LIVE)
    Path("other.yaml").write_text("runn: x\n")
    code, out, err = run("validate", "--live", "task.yaml", "other.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("other.yaml:1:1: runn:")
    assert err.endswith(f"\n{UNREACHABLE}\n")
    code, out, _ = run("validate", "--live", "task.yaml", "other.yaml", "-o", "json")
    result = yaml.safe_load(out)
    assert (code, result["valid"], result["notes"]) == (2, False, [UNREACHABLE])
    assert result["problems"][0]["path"] == "runn"
    Path("task.yaml").write_text("run: a\nname: a b\n")
    assert run("validate", "--live", "task.yaml")[0] == 3
    assert run("validate", "--live", "--strict", "task.yaml")[0] == 2


def test_validate_live_cluster_lost_keeps_problems_of_earlier_files(
    api: FakeCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = iter([api.session()])

    def connect(connection: object) -> Session:
        for session in sessions:
            return session
        raise Unreachable("no answer")

    monkeypatch.setattr(Session, "connect", connect)
    Path("task.yaml").write_text(LIVE + "volumes: {/data: {size: 1}}\n")
    Path("other.yaml").write_text(LIVE)
    code, _, err = run("validate", "--live", "task.yaml", "other.yaml")
    assert code == 2
    assert err.startswith("task.yaml: the cluster has no StorageClass")
    assert err.endswith("warning: not checked against the cluster: no answer\n")


def test_validate_live_context_of_file_that_does_not_exist_is_error_with_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = {"apiVersion": "v1", "kind": "Config", "contexts": [], "clusters": [], "users": []}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    code, err = live(run, LIVE + "resources: {infra: k8s/west}\n")
    assert code == 2
    assert err.startswith("task.yaml:3:")
    assert 'context "west" not found in the kubeconfig' in err


def test_validate_live_skips_files_with_errors_and_unset_values(api: FakeCluster, run: Run) -> None:
    assert live(run, "runn: x\n")[0] == 2
    code, err = live(run, "run: x\nenvs: {DIR: null}\nworkdir: $DIR\n")
    assert (code, err.splitlines()) == (
        0,
        [
            "task.yaml: submit needs --env DIR=…",
            "task.yaml: not checked against the cluster: some values are not set",
        ],
    )
    assert api.requests == []


def test_validate_live_json_lists_refusal_and_notes(api: FakeCluster, run: Run) -> None:
    api.forbidden.add("create jobs")
    Path("task.yaml").write_text("setup: x\n")
    code, out, _ = run("validate", "--live", "task.yaml", "-o", "json")
    result = yaml.safe_load(out)
    assert (code, result["valid"]) == (3, False)
    assert [(item["file"], item["line"]) for item in result["problems"]] == [("task.yaml", 0)]
    assert any("stay up until it is stopped" in note for note in result["notes"])


def _cases() -> list[tuple[str, str]]:
    """Return task files: examples, and one for each rule of unsupported fields."""
    root = Path(__file__).parents[2]
    files = [
        *root.glob("examples/*.yaml"),
        *root.glob("packages/server/deploy/components/oidc/*.yaml"),
    ]
    cases = [(file.name, file.read_text()) for file in sorted(files)]
    for entry in unsupported.list_fields():
        value: object = {"a": "b"}
        for name in reversed(entry.field):
            value = {name: value} if name not in ("*", "[]") else [value]
        cases.append((".".join(entry.field), yaml.safe_dump({"run": "echo", **dict(value)})))  # type: ignore[call-overload]
    return [*cases, ("wrong", WRONG), ("mounts", f"file_mounts:\n{MOUNT}run: echo\n")]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in _cases()])
def test_validate_is_valid_exactly_if_submit_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    problems = [item for item in checked(tmp_path, text) if item.severity == "error"]
    documents = list(yaml.safe_load_all(text))

    def unset(section: str) -> tuple[str, ...]:
        values = [item for document in documents for item in (document.get(section) or {}).items()]
        return tuple(f"{name}=x" for name, value in values if value is None)

    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    served = any("service" in document for document in documents)
    path = str(tmp_path / "task.yaml")
    flags = service.Flags() if served else None
    source = Source(
        path,
        Overrides(env=unset("envs"), secret=unset("secrets")),
        environ,
        io.BytesIO(),
        serve=flags,
    )
    try:
        render_files([source], Facts(owners.name_owner("alice"), "default"), UI())
        refused = ""
    except UserError as error:
        refused = str(error)
    assert bool(problems) == bool(refused), (problems, refused)
