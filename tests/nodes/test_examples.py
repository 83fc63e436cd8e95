"""Small forms of examples on three cluster nodes, with real programs: no GPU, and a tiny model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.images import PYTORCH, archives, load, make_pytorch
from tests.cluster.node_faults import NodeFaults
from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.test_buckets import KEYS, program, store  # noqa: F401
from tests.nodes.support import LOST_SOON, drain, hosts
from tests.polling import eventually

pytestmark = pytest.mark.faults

ID = "training"

# Without GPUs, a node has one process. FSDP needs more than gloo has.
_ONE_PROCESS = "SKYPILOT_NUM_GPUS_PER_NODE=1\nexport USE_LIBUV=0\n"
_FSDP = (
    "  --mixed_precision bf16 \\\n",
    "  --use_fsdp \\\n",
    "  --fsdp_version 2 \\\n",
    "  --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP \\\n",
)


@pytest.fixture(scope="module", autouse=True)
def pytorch(three_nodes: Cluster) -> None:
    load(three_nodes, make_pytorch())
    load(three_nodes, next(path for path in archives() if path.stem == "rclone"))


def shrink(number: str, folder: Path) -> dict[str, Any]:
    """Return an example for CPUs, with its workdir; one with a model makes a tiny one in setup."""
    (path,) = (ROOT / "examples").glob(f"{number}-*.yaml")
    task: dict[str, Any] = yaml.safe_load(path.read_text())
    work = folder / "work"
    shutil.copytree(ROOT / task["workdir"], work)
    recovery = task["resources"].get("job_recovery")
    task["workdir"] = str(work)
    task["resources"] = {"image_id": PYTORCH.name, "cpus": "100m+", "memory": "1Gi"}
    task["run"] = _ONE_PROCESS + task["run"]
    if recovery:
        task["resources"]["job_recovery"] = recovery
    if "MODEL" in task.get("envs", {}):
        for name in ("datasets.py", "model.py"):
            shutil.copy(ROOT / "programs/gpu" / name, work)
        task["setup"] = "python3 model.py ./model"
        task["envs"] |= {"MODEL": "./model", "PYTHONPATH": ".", "HF_HUB_OFFLINE": "1"}
    return task


def test_pytorch_processes_on_three_cluster_nodes_share_their_gradients(
    sky: Command, tmp_path: Path
) -> None:
    task = shrink("24", tmp_path) | {"num_nodes": 3}
    done = sky("submit", "-", "--id", ID, stdin=json.dumps(task))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "node-0 | 3 processes: y = 2.0 x + 1.0" in done.stdout.splitlines()
    assert len(set(hosts(sky, ID))) == 3


def test_accelerate_trains_on_three_cluster_nodes_with_a_shared_volume(
    sky: Command, tmp_path: Path
) -> None:
    task = shrink("34", tmp_path) | {"num_nodes": 3}
    for line in _FSDP:
        assert line in task["run"]
        task["run"] = task["run"].replace(line, "")
    task["run"] = task["run"].replace("--fsdp_state_dict_type SHARDED_STATE_DICT", "--cpu")
    task["run"] += 'ls "/checkpoints/$SKYPILOT_TASK_ID/final"\n'
    created = sky("volumes", "create", "checkpoints", "1Gi", "--access-modes", "RWX")
    assert created.returncode == 0, created.stderr

    flags = ("--id", ID, "--backend", "indexed")
    done = sky("submit", "-", *flags, stdin=json.dumps(task))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| trained 200 steps") == 3
    assert done.stdout.count("| model.safetensors") == 3


def test_training_on_drained_cluster_node_goes_on_from_its_bucket(
    sky: Command,
    kubectl: Command,
    faults: NodeFaults,
    store: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    task = shrink("42", tmp_path)
    task["config"] = LOST_SOON
    task["envs"] |= {"BUCKET": "s3://data/spot", "AWS_ENDPOINT_URL": store}
    task["run"] = task["run"].replace("sleep 60", "sleep 2")
    assert "sleep 2" in task["run"]
    rows = tmp_path / "work" / "datasets.py"
    rows.write_text(
        rows.read_text().replace(
            "    def filter",
            "    def __getitem__(self, index):\n"
            "        import time\n\n"
            "        time.sleep(0.04)\n"
            "        return super().__getitem__(index)\n\n"
            "    def filter",
        )
    )
    flags = [f"--secret={name}={value}" for name, value in KEYS.items()]
    file = sky.write("t.yaml", json.dumps(task))
    process = sky.start("submit", file, "--id", ID, *flags)

    def has_checkpoint() -> bool:
        found = kubectl("exec", "store", "--", "find", "/store/data/spot", "-name", "name")
        return "name" in found.stdout

    eventually(has_checkpoint, 120)
    (host,) = hosts(sky, ID)
    drain(kubectl, host)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "starting from ./model" in out
    assert "starting from checkpoint-" in out
    assert "trained 200 steps" in out
    assert hosts(sky, ID) != [host]
