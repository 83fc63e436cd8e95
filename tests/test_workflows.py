"""The workflows of GitHub Actions use only files, make targets and packages that exist."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from kubectl_sky import __version__

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = sorted((ROOT / ".ci" / "lock").glob("*.txt"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def scripts() -> Iterator[tuple[str, str]]:
    """Yield all shell of the workflows and the Makefile, by file."""
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                yield path.name, step.get("run", "")
    yield "Makefile", (ROOT / "Makefile").read_text()


def names(pattern: str) -> set[tuple[str, str]]:
    return {(file, name) for file, text in scripts() for name in re.findall(pattern, text)}


def test_workflows_call_make_with_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = [words for file, words in names(r"\bmake ((?:[a-z-]+ ?)+)") if file != "Makefile"]
    called = {target for words in listed for target in words.split()}
    assert {"packages", "test"} <= called <= targets


def test_workflows_call_scripts_that_exist() -> None:
    called = names(r"\.ci/[a-z_.]+")
    assert {".ci/run", ".ci/dist.py", ".ci/packages.sh"} <= {script for _, script in called}
    assert not [(file, script) for file, script in called if not (ROOT / script).exists()]


def test_release_and_action_install_locked_packages_only() -> None:
    files = (ROOT / ".ci" / "isolated.sh", ROOT / ".ci" / "packages.sh", ROOT / "action.yml")
    text = "".join(path.read_text() for path in (*WORKFLOWS, *files)).replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    safe = re.compile(r"--require-hashes +--only-binary :all: +--requirement|--no-deps")
    assert len(installs) > 6 and not [line for line in installs if not safe.search(line)]
    locks = {name for _, name in names(r"\.ci/lock/([a-z]+)\.txt")}
    assert locks <= {path.stem for path in LOCKS}


def locked(path: Path) -> Iterator[Requirement]:
    """Yield the packages of a lock; each has a version and hashes."""
    for entry in re.split(r"\n(?=[a-z])", path.read_text())[1:]:
        requirement, *hashes = entry.replace("\\", "").split("--hash=sha256:")
        assert hashes and all(re.fullmatch(r"[0-9a-f]{64}\s*", text) for text in hashes)
        yield Requirement(requirement.strip())


def requirements(extra: str) -> list[str]:
    """Return what an extra installs besides packages of this repository."""
    package = ROOT / "packages" / extra / "pyproject.toml"
    dependencies = tomllib.loads(package.read_text())["project"]["dependencies"]
    return [item for item in dependencies if not item.startswith("kubectl-sky==")]


@pytest.mark.parametrize(
    ("lock", "extras", "groups"),
    [
        ("package", [], []),
        ("archive", ["practice", "ui"], ["archive"]),
        ("image", ["server"], []),
        ("packages", None, ["packages"]),
        ("all", ["practice", "server", "ui"], []),
    ],
)
def test_lock_has_version_in_range_and_hashes_of_each_package(
    lock: str, extras: list[str] | None, groups: list[str]
) -> None:
    """Run `.ci/lock.sh` after a change of the dependencies."""
    wanted = [] if extras is None else list(PROJECT["project"]["dependencies"])
    for extra in extras or ():
        wanted += requirements(extra)
    for group in groups:
        wanted += PROJECT["dependency-groups"][group]
    path = ROOT / ".ci" / "lock" / f"{lock}.txt"
    versions = {item.name: next(iter(item.specifier)).version for item in locked(path)}
    for requirement in map(Requirement, wanted):
        assert versions[requirement.name] in requirement.specifier, requirement
    assert "://" not in path.read_text(), "it names no package index"


def test_actions_are_pinned_by_commit_and_name_version() -> None:
    text = "".join(path.read_text() for path in (*WORKFLOWS, ROOT / "action.yml"))
    used = re.findall(r"\buses: (.*)", text)
    assert used
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


def test_release_builds_archive_of_each_platform() -> None:
    matrix = RELEASE["jobs"]["archives"]["strategy"]["matrix"]["include"]
    platforms = yaml.safe_load((ROOT / "plugin.yaml").read_text())["spec"]["platforms"]
    labels = [entry["selector"]["matchLabels"] for entry in platforms]
    assert [e["platform"] for e in matrix] == [f"{e['os']}-{e['arch']}" for e in labels]


def test_release_names_its_image_by_digest_in_packages_and_archives(tmp_path: Path) -> None:
    for name in ("packages/server/kubectl_sky_server/install/model.py", ".ci/digest.sh"):
        target = tmp_path / name
        target.parent.mkdir(parents=True)
        shutil.copy(ROOT / name, target)
    digest = f"sha256:{'a1' * 32}"
    script = [str(tmp_path / ".ci" / "digest.sh")]
    assert subprocess.run([*script, "latest"], capture_output=True, check=False).returncode == 1

    shutil.copy(
        ROOT / "packages/server/kubectl_sky_server/install/model.py",
        tmp_path / "packages/server/kubectl_sky_server/install",
    )
    subprocess.run([*script, digest], check=True)
    model = runpy.run_path(str(tmp_path / "packages/server/kubectl_sky_server/install/model.py"))
    assert model["DEFAULT_IMAGE"] == f"{RELEASE['env']['IMAGE']}:{__version__}@{digest}"

    for job in ("packages", "archives"):
        steps = [step.get("run", "") for step in RELEASE["jobs"][job]["steps"]]
        assert '.ci/digest.sh "$DIGEST"' in steps


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah", ""])
def test_make_image_uses_builder_that_responds_or_says_what_is_missing(
    builder: str, tmp_path: Path
) -> None:
    for name in ("docker", builder):
        program = tmp_path / (name or "none")
        works = name == builder
        program.write_text(f"#!/bin/sh\n{'echo ' + name + ' $*' if works else 'exit 1'}\n")
        program.chmod(0o755)
    command = ["/bin/sh", str(ROOT / ".ci" / "image.sh"), "sky:1"]
    environment = {"PATH": str(tmp_path)}
    (tmp_path / "dirname").symlink_to(str(shutil.which("dirname")))

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if builder:
        assert (
            done.stdout
            == f"{builder} build --file packages/server/Containerfile --tag sky:1 .\nsky:1\n"
        )
    else:
        assert done.returncode == 1
        assert done.stderr.startswith("error: docker, podman or buildah is required")


def test_tests_run_on_each_supported_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    newer = jobs["python"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    listed = [name for name in PROJECT["project"]["classifiers"] if name.startswith(prefix)]
    assert listed == [f"Programming Language :: Python :: {name}" for name in ["3.11", *newer]]


def release_notes(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "release_notes.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_release_notes_of_version_print_its_section() -> None:
    printed = release_notes(__version__)
    assert printed.returncode == 0, printed.stderr
    assert "## " not in printed.stdout
    assert printed.stdout.strip() in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("version", ["0.1", "0.10", "9.9.9", ".*", ""])
def test_release_notes_of_unknown_version_fail(version: str) -> None:
    printed = release_notes(version)
    assert printed.returncode == 1 and printed.stdout == ""
    assert printed.stderr == f'error: version "{version}" not found in CHANGELOG.md\n'


@pytest.mark.parametrize("target", ["dist", "packages"])
def test_make_target_of_release_leaves_venv_alone(target: str) -> None:
    # `make test` runs these tests, and a make below another one prints the folder it enters.
    command = ["make", "--no-print-directory", "--dry-run", target, f"PYTHON={sys.executable}"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert planned.stdout.startswith(".ci/isolated.sh ")
    assert " .venv" not in planned.stdout.replace(sys.executable, "PYTHON")
