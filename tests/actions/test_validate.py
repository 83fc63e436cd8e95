"""Validate refuses what submit refuses, and warns of the rest."""

import io
from pathlib import Path

import pytest
import yaml

from kubectl_sky import users
from kubectl_sky.actions import validate
from kubectl_sky.actions.flags import Overrides
from kubectl_sky.actions.render import render_file
from kubectl_sky.actions.taskfile import Source, load
from kubectl_sky.actions.ui import UI
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.facts import Facts
from kubectl_sky.spec import service, unsupported

MOUNT = "  /a: {source: s3://b, mode: MOUNT}\n"
WRONG = (
    "resources: {accelerators: tpu-v2-8}\n"
    f"file_mounts:\n{MOUNT}  /b: {{name: bucket}}\n  /c: {{source: r2://c, mode: COPY}}\n"
    "run: echo\n"
)


def checked(tmp_path: Path, text: str, settings: str = "") -> list[Problem]:
    file = tmp_path / "task.yaml"
    file.write_text(text)
    (tmp_path / "settings.yaml").write_text(settings)
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    (report,) = validate.check([str(file)], io.BytesIO(), environ)
    return list(report.problems)


def drafted(tmp_path: Path, strict: bool = False) -> tuple[Problem, ...]:
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    path = str(tmp_path / "task.yaml")
    return load(Source(path, Overrides(), environ, io.BytesIO(), strict), UI()).warnings


def unpack_paths(problems: list[Problem]) -> list[tuple[int, str]]:
    return [(problem.line, problem.path) for problem in problems]


REFUSED = [
    (1, "resources.accelerators"),
    (3, "file_mounts./a"),
    (4, "file_mounts./b"),
    (5, "file_mounts./c"),
]


def test_validate_refuses_fields_refused_by_submit(tmp_path: Path) -> None:
    problems = checked(tmp_path, WRONG)
    assert unpack_paths(problems) == REFUSED
    assert {problem.severity for problem in problems} == {"error"}
    assert [problem.message for problem in problems] == [
        '"tpu-v2-8": GKE has no TPU of this name for pods',
        "no CSI driver or PVC is configured to mount s3://b (mode: MOUNT)",
        'the store of bucket "bucket" is not set',
        'the endpoint of store "r2" is not set',
    ]
    with pytest.raises(InvalidFiles) as caught:
        drafted(tmp_path)
    assert unpack_paths(list(caught.value.problems)) == REFUSED
    assert {problem.severity for problem in caught.value.problems} == {"error"}


def test_validate_bucket_with_settings_has_no_warning(tmp_path: Path) -> None:
    settings = "stores: {s3: {claims: {b: pvc}}}\n"
    assert checked(tmp_path, f"file_mounts:\n{MOUNT}run: echo\n", settings) == []
    assert checked(tmp_path, f"file_mounts:\n{MOUNT}run: echo\n", "bucket_mode: copy\n") == []


def test_validate_file_with_errors_has_no_settings_warning(tmp_path: Path) -> None:
    problems = checked(tmp_path, f"{WRONG}rnu: x\n")
    assert unpack_paths(problems) == [(7, "rnu")]


def test_validate_missing_programs_are_warning_or_error_if_strict(tmp_path: Path) -> None:
    (warning,) = checked(tmp_path, "run: |\n  git pull\n")
    assert str(warning).partition("task.yaml:")[2].startswith("2:1: run: warning: the default")
    assert drafted(tmp_path) == (warning,)
    with pytest.raises(InvalidFiles, match="has no git"):
        drafted(tmp_path, strict=True)


@pytest.mark.parametrize("settings", ["image: base:1\n", "defaults: skypilot\n"])
def test_validate_image_in_settings_has_no_program_warning(tmp_path: Path, settings: str) -> None:
    assert checked(tmp_path, "run: |\n  git pull\n", settings) == []
    assert drafted(tmp_path) == ()


def _cases() -> list[tuple[str, str]]:
    """Return task files: examples, and one for each rule of unsupported fields."""
    root = Path(__file__).parents[2]
    files = [*root.glob("examples/*.yaml"), *root.glob("examples/server/*.yaml")]
    cases = [(file.name, file.read_text()) for file in sorted(files)]
    for entry in unsupported.listed():
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
    path, flags = str(tmp_path / "task.yaml"), service.Flags() if served else None
    source = Source(
        path,
        Overrides(env=unset("envs"), secret=unset("secrets")),
        environ,
        io.BytesIO(),
        serve=flags,
    )
    try:
        render_file(source, Facts(users.named("alice"), "default"), UI())
        refused = ""
    except UserError as error:
        refused = str(error)
    assert bool(problems) == bool(refused), (problems, refused)
