"""Tasks that request GPUs by name, on clusters with and without GPU labels."""

from tests.e2e.command import Command, submitted

HEAD = "name: gpus\nrun: echo gpus $SKYPILOT_NUM_GPUS_PER_NODE\n"
PRODUCT = "nvidia.com/gpu.product"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

# Every field that constrains scheduling.
WRITTEN = """
resources:
  accelerators: [A100:2, H100:2]
  use_spot: true
  disk_size: 1
  priority_class: high
  autostop: {down: true, idle_minutes: 10}
"""
SLICE = "resources: {accelerators: tpu-v6e-8}\n"


def products(kubectl: Command) -> set[str]:
    nodes = kubectl.json("get", "nodes")["items"]
    return {node["metadata"]["labels"].get(PRODUCT, "") for node in nodes} - {""}


def test_submit_named_gpu_is_scheduled_on_matching_nodes(sky: Command, kubectl: Command) -> None:
    resources = "resources: {accelerators: {A100: 2, V100: 2}, disk_size: 1}\n"
    done = sky("submit", "-", stdin=HEAD + resources)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["gpus 2"]

    job = kubectl.json("get", "job", f"gpus-{submitted(done)}")
    pod = job["spec"]["template"]["spec"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]

    if products(kubectl):
        (term,) = pod["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        (rule,) = term["matchExpressions"]
        assert (rule["key"], rule["operator"]) == (PRODUCT, "In")
        assert set(rule["values"]) <= products(kubectl), "only existing labels"
    else:
        assert "affinity" not in pod
        assert "cluster nodes have no GPU labels" in done.stderr


def test_render_gpu_resources_are_accepted_by_server(sky: Command, kubectl: Command) -> None:
    for resources in (WRITTEN, SLICE):
        rendered = sky("render", "-", stdin=HEAD + resources)
        assert rendered.returncode == 0, rendered.stderr
        done = kubectl(
            "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=rendered.stdout
        )
        assert done.returncode == 0, done.stderr
