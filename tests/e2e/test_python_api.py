"""The Python API on both clusters: the cells of the notebook print what it shows."""

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky import Client, Task
from tests.e2e.command import ROOT, Command
from tests.polling import eventually

NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.fixture
def in_cluster(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process use the kubeconfig and the home of the test."""
    for name in ("HOME", "KUBECONFIG"):
        monkeypatch.setenv(name, environment[name])
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)


@pytest.mark.practice_only
@pytest.mark.usefixtures("in_cluster")
def test_notebook_cells_print_stored_outputs() -> None:
    """Run the cells as Python: what a kernel adds is not used. UPDATE_GOLDEN=1 stores outputs."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text = printed.getvalue().splitlines(keepends=True)
        outputs = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
        if os.environ.get("UPDATE_GOLDEN"):
            cell |= {"outputs": outputs, "execution_count": number}
        assert cell["outputs"] == outputs, f"cell {number}"
    if os.environ.get("UPDATE_GOLDEN"):
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


@pytest.mark.practice_only
@pytest.mark.usefixtures("in_cluster")
def test_python_and_command_line_show_same_task(sky: Command, tmp_path: Path) -> None:
    """What one submits, the other sees. Files that no ConfigMap holds go to the pod."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "random").write_bytes(os.urandom(2_000_000))
    task = Task(name="shared", run="wc -c < random", workdir=str(folder))
    run = Client(user="tester").submit(task)
    assert [line.text.strip() for line in run.logs()] == ["2000000"]
    assert run.wait(timeout=120).name == "shared"
    assert sky("logs", run.id).stdout.strip() == "2000000"
    # A node has completed with its pod: `updated_at` changes once more, with its Job.
    eventually(lambda: sky.json("status", run.id) == run.status().as_json())
    assert sky("stop", run.id).returncode == 0
    assert run.client.list() == ()
