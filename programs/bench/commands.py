"""Tables of commands that need no cluster: beside kubectl, and beside SkyPilot."""

from programs.bench import skypilot
from programs.bench.harness import ROOT, Bench

_EXAMPLES = ROOT / "examples"
_MULTI_NODE = _EXAMPLES / "05-multi-node.yaml"
_FILES = 1000
_WRONG = "name: hello\nresources: {cpu: 2}\nrun: echo hello\n"  # both see it without a server
# SkyPilot refuses some files; what counts is the time.
_READ = """
import glob, sky
for file in glob.glob("*.task.yaml"):
    try:
        sky.Task.from_yaml(file)
    except Exception:
        pass
"""


def commands(bench: Bench) -> None:
    """Start, validate and render, beside a kubectl that reads the same objects."""
    bench.write("all.yaml", bench.run(f"kubectl-sky render {_MULTI_NODE} --id bench001"))
    bench.write("kustomization.yaml", "resources: [all.yaml]\n")
    bench.write("task.yaml", _MULTI_NODE.read_text())
    lines = (
        "kubectl version --client",
        "kubectl kustomize",
        "python -c pass",
        "kubectl-sky --help",
        "kubectl-sky validate task.yaml",
        "kubectl-sky render task.yaml",
    )
    bench.compare("commands", "command", lines, rounds=21)


def language(bench: Bench) -> None:
    """Read 1,000 files, and refuse a wrong one, beside SkyPilot."""
    programs = bench.folder / "venv" / "bin"
    for name, program in (("sky", "sky"), ("skypilot-python", "python")):
        text = f'#!/bin/sh\nexec {skypilot.python().with_name(program)} "$@"\n'
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    texts = [path.read_text() for path in sorted(_EXAMPLES.glob("*.yaml"))]
    local = ("workdir:", "file_mounts:")  # what is timed is reading files, not looking for others
    texts = [text for text in texts if not any(map(text.count, local))]
    for number in range(10 if bench.short else _FILES):
        bench.write(f"{number}.task.yaml", texts[number % len(texts)])
    bench.write("read.py", _READ)
    bench.write("wrong.yaml", _WRONG)
    title = f"{_FILES:,} files; SkyPilot {skypilot.VERSION}"
    many = ("sh -c 'kubectl-sky validate *.task.yaml'", "skypilot-python read.py")
    bench.compare("language", title, many, rounds=5)
    wrong = ("kubectl-sky validate wrong.yaml", "sky launch --dryrun -y wrong.yaml")
    refused = [f"sh -c '! {line}'" for line in wrong]
    bench.compare("wrong file", "a wrong file", refused, rounds=5)


TABLES = {"commands": commands, "language": language}
