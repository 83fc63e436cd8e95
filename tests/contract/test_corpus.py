"""Public SkyPilot files render to objects that the server accepts without unknown fields."""

import io
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from kubectl_sky.actions.flags import Overrides
from kubectl_sky.actions.render import render
from kubectl_sky.actions.taskfile import Source, prepare
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, InvalidFiles, UserError
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import decide
from tests.contract.corpus import make_files, open_values
from tests.spec.test_corpus import CORPUS, rows

pytestmark = pytest.mark.outside

_MAKE = "not supported: no bucket is created or filled"
_NAMELESS = "not supported: the bucket has no name, and none is created"
_SEEN = "not supported: the manifests would show a secret's value"
# Files that SkyPilot accepts and we refuse, with the printed reason.
NOT_RENDERED = {
    "upstream__examples__docker__echo_app.yaml": _NAMELESS,
    "upstream__examples__oci__oci-mounts.yaml": _MAKE,
    "upstream__examples__playground__symlink_playground.yaml": _MAKE,
    "upstream__examples__spot__bert_qa.yaml": _NAMELESS,
    "upstream__examples__tpu__tpu_node_mnist.yaml": (
        '"tpu-v2-8": GKE has no TPU of this name for pods'
    ),
    "upstream__examples__using_file_mounts_with_env_vars.yaml": f"{_MAKE}; {_SEEN}",
    "upstream__sky__recipes__examples__basic_volume.yaml": (
        "not supported: this is a volume, not a task"
    ),
    "upstream__tests__test_yamls__test_enable_all_default.yaml": (
        "not supported: a task cannot build or run containers"
    ),
}


# Results without flags and settings: the reason and its number of files.
# The number of rendered files must not decrease; raise the numbers when it increases.
RENDERED = 27
RENDERED_WITH_A_NOTE = 15  # about programs that the default image lacks
REFUSED = {
    "needs --as-task": 17,
    "needs --env or --secret": 9,
    "needs a setting for its bucket": 4,
    "needs a bucket to be created": 3,
    "other": 2,
}
_REASONS = {
    "--as-task": "needs --as-task",
    "the value is not set": "needs --env or --secret",
    "settings.yaml": "needs a setting for its bucket",
    "bucket": "needs a bucket to be created",
}


def first_try(path: Path) -> str:
    """Return the result for a file without flags: "", "note", or why it is refused."""
    for task in yaml.safe_load_all(path.read_text()):
        make_files(task or {})
    environ = {"KUBECTL_SKY_CONFIG_HOME": "none"}
    try:
        task_file = prepare(Source(str(path), Overrides(), environ, io.BytesIO()), UI())
        decide(task_file.entries, Facts(owners.named("tester"), "default"), task_file.settings)
    except InvalidFiles as error:
        message = " ".join(map(str, error.problems))
        return next((kind for words, kind in _REASONS.items() if words in message), "other")
    messages = [warning.message for warning in task_file.warnings]
    return "note" if any(map(re.compile("default .*image").search, messages)) else ""


def manifests(path: Path, namespace: str) -> Manifests:
    tasks = [document for document in yaml.safe_load_all(path.read_text()) if document]
    for task in tasks:
        make_files(task)
    overrides = Overrides(
        env=open_values(tasks, "envs"), secret=open_values(tasks, "secrets"), as_task=True
    )
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(Path.cwd())}
    task_file = prepare(Source(str(path), overrides, environ, io.BytesIO()), UI())
    facts = Facts(owners.named("tester"), namespace)
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
def test_render_corpus_share_without_flags_does_not_decrease() -> None:
    if not valid():
        pytest.skip(f"no corpus beside the checkout, at {CORPUS}")
    counts = Counter(first_try(CORPUS / file) for file in valid())
    rendered, noted = counts.pop(""), counts.pop("note")
    assert rendered >= RENDERED, counts
    assert rendered + noted >= RENDERED + RENDERED_WITH_A_NOTE, counts
    assert counts == REFUSED


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
