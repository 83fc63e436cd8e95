"""The pages for contributors name what exists: modules, paths, commits and tested versions."""

import re
import subprocess
from pathlib import Path

import pytest

from kubectl_sky.cluster import exec as cluster_exec
from tests.test_layout import CODE, FENCE, MAP, ROOT, sections

RECIPES = ROOT / "docs" / "extending.md"
SUPPORT = ROOT / "docs" / "support.md"
PLACEHOLDER = re.compile(r"NAME|NN-")
COMMIT = re.compile(r"`([0-9a-f]{7})`")
# Folders of code that only commits touch which add something of the recipe's kind.
CHECKED_FOLDERS = {"schemas", "templates"} | {
    f"kubectl_sky/{folder}" for folder in ("cli", "plan", "spec", "workloads")
}
FOLDERS = ("docs", "examples", "kubectl_sky", "packages", "schemas", "templates", "tests")
MODULES = ROOT / "tests" / "cluster" / "modules"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def paths_in(text: str) -> set[str]:
    """Return the paths in code and in commands; generated ones and placeholders are left out."""
    words = {word for block in FENCE.findall(text) for word in block.split()}
    words |= set(CODE.findall(FENCE.sub("", text)))
    return {
        word
        for word in words
        if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", word) and not PLACEHOLDER.search(word)
    }


@pytest.mark.parametrize("page", [MAP, RECIPES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_contributor_page_names_only_existing_paths(page: Path) -> None:
    paths = paths_in(page.read_text())
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.skipif(
    git("rev-parse", "--is-shallow-repository").stdout.strip() != "false", reason="no history"
)
@pytest.mark.parametrize("recipe", ["Add a command", "Add a field", "Add a backend"])
def test_recipe_names_files_that_example_commits_touched(recipe: str) -> None:
    """Every folder of the example commits' code, whatever its files were called then."""
    text = sections(RECIPES)[recipe]
    named = {folder for path in CODE.findall(text) if (folder := folder_of(path))}
    for commit in COMMIT.findall(text):
        shown = git("show", "--name-only", "--format=", commit)
        assert shown.returncode == 0, shown.stderr
        touched = {folder_of(path) for path in shown.stdout.splitlines()}
        assert touched & CHECKED_FOLDERS <= named, commit


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def test_recipe_commits_are_named() -> None:
    for title, text in sections(RECIPES).items():
        assert COMMIT.search(text), title


@pytest.mark.parametrize(
    ("title", "folder", "module"),
    [
        ("Kueue", "kueue", "sigs.k8s.io/kueue"),
        ("JobSet", "jobset", "sigs.k8s.io/jobset"),
        ("AppWrapper", "appwrapper", "github.com/project-codeflare/appwrapper"),
        ("MPI operator", "mpi-operator", "github.com/kubeflow/mpi-operator"),
        ("KubeRay", "kuberay", "github.com/ray-project/kuberay/ray-operator"),
    ],
)
def test_support_page_has_versions_of_tested_controllers(
    title: str, folder: str, module: str
) -> None:
    text = (MODULES / folder / "go.mod").read_text()
    (version,) = re.findall(rf"^\s+{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert f"| {title} | {version} |" in SUPPORT.read_text()


def test_support_page_has_tested_kubernetes_and_oldest_python() -> None:
    text = SUPPORT.read_text()
    (version,) = re.findall(r"k8s.io/kubernetes v(\S+)", (MODULES / "kube" / "go.mod").read_text())
    assert f"| {version} built from its Go modules" in text
    (oldest,) = re.findall(
        r'^requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert f"| Python | {oldest} and newer | {oldest} (everything)" in text
    source = Path(cluster_exec.__file__).read_text()
    assert f"| Kubernetes | {re.findall('Kubernetes (.*) or newer', source)[0]} and newer |" in text
