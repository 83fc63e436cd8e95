"""Run small forms of the GPU examples on the GPUs of this machine, in a practice cluster.

`make test-gpu`. Tasks run the Python that has the packages: TEST_GPU_PYTHON, else `python3` of
PATH. Nothing is downloaded: models are made here, and rows of text are a stand-in's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
_SKY = (sys.executable, "-m", "kubectl_sky")
_BANNER = "=" * 72
_ON_GPU = {"torch": "torch.zeros(1).cuda()", "jax": "jax.devices('gpu')"}


class Small(NamedTuple):
    """The small form of an example: the modules it needs, and a pattern of what it prints."""

    number: str
    modules: tuple[str, ...]
    prints: str
    has_model: bool = False


SMALL = (
    Small("24", ("torch",), r"\d processes: y = 2\.0 x \+ 1\.0"),
    Small("25", ("torch", "transformers", "accelerate"), r"trained 200 steps", has_model=True),
    Small("34", ("torch", "transformers", "accelerate"), r"trained 200 steps", has_model=True),
    Small("35", ("torch", "lightning"), r"max_epochs=3. reached"),
    Small("36", ("jax",), r"1 of (\d) devices are here; their sum is \1"),
)


class Machine:
    """A practice cluster with the GPUs of this machine, in a home of its own."""

    def __init__(self, home: Path, python: str) -> None:
        self.home = home
        self.python = python
        self._environment = {**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"}
        for name in ("KUBECONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            self._environment.pop(name, None)

    def sky(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run the program in the checkout; show what it prints."""
        print(f"$ kubectl sky {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            [*_SKY, *arguments],
            cwd=ROOT,
            env=self._environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, flush=True)
        return done

    def start(self) -> int:
        """Start the cluster; return its number of GPUs, 0 if there are none."""
        done = self.sky("local", "up", "--gpus", "host")
        if done.returncode:
            return 0
        config = re.search(r"KUBECONFIG=(\S+)", done.stdout)
        assert config, done.stdout
        self._environment["KUBECONFIG"] = config[1]
        (machine,) = json.loads(self.sky("gpus", "-o", "json").stdout)["machines"]
        return int(machine["total"])

    def has(self, modules: tuple[str, ...]) -> bool:
        """Return whether the Python of the tasks has modules, the first one with a GPU."""
        script = f"import {', '.join(modules)}; {_ON_GPU[modules[0]]}"
        quiet = subprocess.DEVNULL
        return not subprocess.run([self.python, "-c", script], stderr=quiet, check=False).returncode


def shrink(small: Small, machine: Machine, gpus: int) -> str:
    """Return the small form of an example: one GPU per node, no downloads and no volumes."""
    (path,) = (ROOT / "examples").glob(f"{small.number}-*.yaml")
    task: dict[str, Any] = yaml.safe_load(path.read_text())
    nodes = min(int(task.get("num_nodes", 1)), gpus)
    task |= {"num_nodes": nodes, "resources": {"accelerators": 1}}
    for field in ("setup", "volumes"):
        task.pop(field, None)
    task["run"] = task["run"].replace("/checkpoints", "/tmp/checkpoints")
    path_of_tasks = f"{Path(machine.python).parent}:/usr/local/bin:/usr/bin:/bin"
    task["envs"] = {**task.get("envs", {}), "PATH": path_of_tasks, "HF_HUB_OFFLINE": "1"}

    if small.has_model:
        work = machine.home / f"work-{small.number}"
        shutil.copytree(ROOT / task["workdir"], work)
        shutil.copy(Path(__file__).parent / "datasets.py", work)
        script = Path(__file__).parent / "model.py"
        subprocess.run([machine.python, str(script), str(work / "model")], check=True)
        task["workdir"] = str(work)
        task["envs"] |= {"MODEL": "./model", "PYTHONPATH": "."}

    return yaml.safe_dump(task)


def run(machine: Machine, gpus: int) -> Iterator[tuple[str, str]]:
    """Yield the result of each small form: ok, FAILED, or NOT RUN with its reason."""
    for small in SMALL:
        if not machine.has(small.modules):
            names = ", ".join(small.modules)
            missing = f"NOT RUN: {machine.python} lacks {names}, or their CUDA"
            yield small.number, missing
            continue
        flags = ("submit", "-", "--id", f"small0{small.number}")
        done = machine.sky(*flags, stdin=shrink(small, machine, gpus))
        succeeded = not done.returncode and re.search(small.prints, done.stdout)
        if not succeeded:
            machine.sky("doctor", f"small0{small.number}")
        result = "ok" if succeeded else "FAILED"
        yield small.number, result


def check_devices(machine: Machine) -> str:
    """Check that a running task has a GPU of its own; return ok or FAILED."""
    task = 'name: holds\nresources: {accelerators: 1}\nrun: echo "$CUDA_VISIBLE_DEVICES"; sleep 60'
    machine.sky("submit", "-", "-d", "--id", "holds001", stdin=task)
    machine.sky("wait", "holds001", "--for", "running", "--timeout", "30s")
    shown = machine.sky("top", "holds001", "--gpu", "-o", "json").stdout
    machine.sky("top", "holds001", "--gpu")
    machine.sky("gpus")
    machine.sky("stop", "holds001", "-y")
    try:
        return "ok" if len(json.loads(shown)["gpus"]) == 1 else "FAILED"
    except ValueError:
        return "FAILED"


def main() -> int:
    """Run all; return 0 if everything ran and succeeded."""
    python = os.environ.get("TEST_GPU_PYTHON") or shutil.which("python3") or sys.executable
    with tempfile.TemporaryDirectory(prefix="test-gpu-") as folder:
        machine = Machine(Path(folder), python)
        try:
            gpus = machine.start()
            if not gpus:
                print(f"{_BANNER}\nNO GPU: NOTHING WAS RUN: nvidia-smi finds none\n{_BANNER}")
                return 1
            results = {"devices": check_devices(machine), **dict(run(machine, gpus))}
        finally:
            machine.sky("local", "down", "--purge")
    lines = [f"{name:8} {result}" for name, result in results.items()]
    print("\n".join([_BANNER, *lines, _BANNER]))
    return int(any(result != "ok" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
