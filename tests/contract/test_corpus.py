"""Public SkyPilot files render to objects that the server accepts without unknown fields."""

import io
import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, InvalidFiles, UserError
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.render import render
from kubectl_sky.submitting.taskfile import Source, prepare
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import decide
from tests.contract.corpus import make_files, open_values
from tests.spec.test_corpus import CORPUS, rows

pytestmark = pytest.mark.outside

_NAMELESS = "not supported: the bucket has no name"
_SEEN = "not supported: the manifests would show a secret's value"
# Files that SkyPilot accepts and we refuse, with the printed reason.
NOT_RENDERED = {
    "upstream__examples__docker__echo_app.yaml": _NAMELESS,
    "upstream__examples__spot__bert_qa.yaml": _NAMELESS,
    "upstream__examples__tpu__tpu_node_mnist.yaml": (
        '"tpu-v2-8": GKE has no TPU of this name for pods'
    ),
    "upstream__examples__using_file_mounts_with_env_vars.yaml": _SEEN,
    "upstream__llm__vicuna__train.yaml": (
        'not supported: "YOUR_OWN_BUCKET_NAME" is not a valid bucket name'
    ),
    "upstream__sky__recipes__examples__basic_volume.yaml": (
        "not supported: this is a volume, not a task"
    ),
    "upstream__tests__test_yamls__test_enable_all_default.yaml": (
        "not supported: a task has no Docker daemon"
    ),
}


# What a part of an error means.
REASONS = {
    "--as-task": "refused: a pool of workers (`--as-task`)",
    "the value is not set": "refused: a value is open (`--env`, `--secret`)",
    "settings.yaml": "refused: a bucket has no store",
    "the bucket has no name": "refused: a bucket has no name",
    "": "refused: a volume (`volumes apply`), a Docker daemon, or a secret as a bucket's name",
}
RENDERED = "rendered as they are"
WARNED = "rendered with a warning: a field is ignored, the image lacks a program"
PAGE = Path(__file__).parents[2] / "docs" / "from-skypilot.md"
TABLE = re.compile(r"(<!-- made by UPDATE_GOLDEN=1 .*? -->\n\n)(.*?)(\n<!-- end -->)", re.S)


def first_try(path: Path) -> str:
    """Return the result of a file without flags and settings, as in the table."""
    for task in yaml.safe_load_all(path.read_text()):
        make_files(task or {})
    environ = {"KUBECTL_SKY_CONFIG_HOME": "none"}
    source = Source(str(path), Overrides(), environ, io.BytesIO(), services=True)
    try:
        task_file = prepare(source, UI())
        decide(task_file.entries, Facts(owners.name_owner("tester"), "default"), task_file.settings)
    except InvalidFiles as error:
        message = " ".join(map(str, error.problems))
        return next(reason for words, reason in REASONS.items() if words in message)
    return WARNED if task_file.warnings else RENDERED


def manifests(path: Path, namespace: str) -> Manifests:
    tasks = [document for document in yaml.safe_load_all(path.read_text()) if document]
    for task in tasks:
        make_files(task)
    overrides = Overrides(
        env=open_values(tasks, "envs"), secret=open_values(tasks, "secrets"), as_task=True
    )
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(Path.cwd())}
    task_file = prepare(Source(str(path), overrides, environ, io.BytesIO()), UI())
    facts = Facts(owners.name_owner("tester"), namespace)
    decision = decide(task_file.entries, facts, task_file.settings)
    return render(task_file, decision, show_secrets=True)


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a temporary folder as current folder and as home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "settings.yaml").write_text("bucket_mode: copy\ndefault_store: s3\n")


def valid() -> list[str]:
    return [row["file"] for row in rows() if row["with_dummy_envs"] == "accept"]


@pytest.mark.usefixtures("at_home")
def test_render_corpus_refuses_only_listed_files() -> None:
    refused = {}
    for file in valid():
        try:
            assert manifests(CORPUS / file, "default").all
        except InvalidFiles as error:
            assert [
                str(problem) for problem in error.problems if not (problem.line and problem.hint)
            ] == []
            refused[file] = sorted({problem.message for problem in error.problems})
        except UserError as error:  # not available in any cluster; the hint says what to do
            assert error.hint
            refused[file] = [error.what]
    listed = {file: reason for file, reason in NOT_RENDERED.items() if file in valid()}
    assert {file: "; ".join(messages) for file, messages in refused.items()} == listed


@pytest.mark.usefixtures("at_home")
def test_page_has_the_results_of_the_corpus_without_flags() -> None:
    if not valid():
        pytest.skip(f"no corpus beside the checkout, at {CORPUS}")
    counts = Counter(first_try(CORPUS / file) for file in valid())
    results = (RENDERED, WARNED, *REASONS.values())
    lines = [f"| {words} | {counts[words]} |\n" for words in results if counts[words]]
    table = f"| result | of {len(valid())} files |\n|---|---|\n{''.join(lines)}"
    page = PAGE.read_text(encoding="utf-8")
    assert f"all but {len(NOT_RENDERED)} of them render" in page
    match = TABLE.search(page)
    assert match
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(page[: match.start(2)] + table + page[match.end(2) :], encoding="utf-8")
        return
    assert match[2] == table, "run it with UPDATE_GOLDEN=1"


@pytest.mark.usefixtures("at_home")
def test_render_corpus_is_accepted_by_server(session: Session, namespace: str) -> None:
    def refusal(items: tuple[str, Json]) -> str:
        try:
            objects.apply(session, items[1], dry_run=True)
        except ClusterError as error:
            return f"{items[0]}: {error}"
        return ""

    files = [file for file in valid() if file not in NOT_RENDERED]
    items = [
        (file, manifest.object)
        for file in files
        for manifest in manifests(CORPUS / file, namespace).all
    ]
    with ThreadPoolExecutor(4) as pool:
        assert list(filter(None, pool.map(refusal, items))) == []
