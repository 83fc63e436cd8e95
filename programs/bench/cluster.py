"""Tables of a real cluster: the start of `list`, `logs` beside stern, files beside `kubectl cp`."""

import os
from pathlib import Path

from programs.bench.harness import Bench

_NODES = 4
_LOGS = {1: 100_000, 10: 100_000, 100: 10_000}  # lines of each pod, by the number of pods
_BYTES = 100_000_000
_SMALL = 1000  # files
_WRITER = """
name: writer
num_nodes: {pods}
resources: {{image_id: "busybox:1.36", cpus: 0.01, memory: 0.02}}
run: |
  awk 'BEGIN {{ for (i = 0; i < {lines}; i++) printf "line %06d: some forty characters\\n", i }}'
"""
_FILES = """
num_nodes: {nodes}
workdir: {workdir}
resources: {{image_id: "busybox:1.36", cpus: 0.01, memory: 0.02}}
run: "true"
"""
_COPY = f"""
set -e
kubectl create job copy --image=busybox:1.36 --dry-run=client -o yaml -- sleep 600 |
  sed 's/^spec:$/&\\n  parallelism: {_NODES}\\n  completions: {_NODES}/' | kubectl apply -f -
until [ "$(kubectl get pods -l job-name=copy -o name | wc -l)" = {_NODES} ]; do sleep 0.1; done
kubectl wait pod -l job-name=copy --for=condition=Ready --timeout=5m
for pod in $(kubectl get pods -l job-name=copy -o name); do
  kubectl cp large "${{pod#pod/}}:/tmp"
done
"""


def start(bench: Bench) -> None:
    """List nothing: what remains is the start of the programs."""
    with bench.namespace():
        lines = ("kubectl get jobs", "kubectl-sky list --all-users")
        bench.compare("start", "in an empty namespace", lines, rounds=21)


def logs(bench: Bench) -> None:
    """Read all lines of tasks that have ended."""
    for pods, count in {1: 1000}.items() if bench.short else _LOGS.items():
        bench.write("writer.yaml", _WRITER.format(pods=pods, lines=count))
        selected = f"-l task-id=bench001 --max-log-requests={pods}"
        stern = f"stern {selected} --no-follow --color=never"
        ours = (
            f"kubectl-sky logs bench001{flags}" for flags in ("", " --by-node", " -f", " -o json")
        )
        lines = (*ours, stern, f"kubectl logs {selected} --prefix --tail=-1")
        with bench.namespace():
            bench.run("kubectl-sky submit writer.yaml --id bench001 --detach")
            bench.run("kubectl-sky wait bench001 --timeout 10m")
            title = f"{pods} pods of {count:,} lines"
            bench.compare(f"logs of {pods}", title, lines, rounds=3, base=stern)


def files(bench: Bench) -> None:
    """From an empty namespace until every node has the files."""
    texts = [path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*/*.py"))]
    size = number = 0

    while size < (_BYTES // 100 if bench.short else _BYTES):
        path = bench.folder / "large" / f"part{number // 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(texts[number % len(texts)])
        size = size + path.stat().st_size
        number = number + 1

    (bench.folder / "small").mkdir()
    for number in range(_SMALL):
        bench.write(f"small/{number}.py", "words of a small file\n" * 140)
    bench.write("copy.sh", _COPY)

    for workdir, nodes in (("large", _NODES), ("small", 1)):
        text = _FILES.format(workdir=workdir, nodes=nodes)
        bench.write(f"{workdir}.yaml", text)
        bench.write("without.yaml", text.replace(f"workdir: {workdir}\n", ""))

    title = f"{_BYTES // 10**6} MB of code to {_NODES} nodes"
    lines = ("sh copy.sh", "kubectl-sky submit large.yaml --detach")
    bench.compare("files", title, lines, rounds=5, around=bench.namespace)
    lines = ("kubectl-sky submit without.yaml --detach", "kubectl-sky submit small.yaml --detach")
    title = f"{_SMALL:,} small files"
    bench.compare("small files", title, lines, rounds=5, around=bench.namespace)


TABLES = {"start": start, "logs": logs, "files": files}
