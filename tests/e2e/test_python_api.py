"""The Python API on both clusters: the cells of the notebook print what it shows."""

import io
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky import Client, Task
from kubectl_sky.errors import TimedOut
from tests.e2e.command import ROOT

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
def test_snippets_of_page_run_in_nodes_and_with_await(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    awaiting, inside = (
        next(block for block in blocks if word in block) for word in ("asyncio.run", "client.exec")
    )
    client = Client(user="tester")
    run = "echo $SKYPILOT_NODE_RANK > results; touch done; echo ready; sleep 600"
    train = client.submit(Task(name="train", run=run, num_nodes=2))
    lines = train.logs()
    assert {next(lines).text, next(lines).text} == {"ready"}

    lines.close()
    exec(compile(inside.replace("Client()", 'Client(user="tester")'), "page", "exec"), {})
    assert (tmp_path / "results").read_text() == "0\n"

    done = client.exec("train", ["sh", "-c", "cat; cat results >&2; exit 5"], rank=1, stdin=b"in")
    assert (done.stdout, done.stderr, done.returncode) == ("in", "1\n", 5)
    with pytest.raises(TimedOut):
        client.exec("train", ["sleep", "60"], timeout=0.5)

    train.stop()
    capsys.readouterr()
    exec(compile(awaiting, "page", "exec"), {})
    printed = capsys.readouterr().out
    assert printed == "part 0\n['completed', 'completed', 'completed']\n"
