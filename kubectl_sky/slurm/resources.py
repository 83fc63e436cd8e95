"""What each node needs: nodes, tasks, CPUs, memory, GPUs and the image of a batch script."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kubectl_sky.slurm import body as script
from kubectl_sky.slurm import values
from kubectl_sky.slurm.directives import Directive
from kubectl_sky.slurm.draft import Draft
from kubectl_sky.slurm.values import Gpus
from kubectl_sky.spec.accelerator import find_model, rtx_products
from kubectl_sky.spec.document import Path, printable
from kubectl_sky.words import names

_ALL_MEMORY = ("0", "0G", "0M")
_ANTI_AFFINITY: Path = (
    *("config", "kubernetes", "pod_config", "spec", "affinity", "podAntiAffinity"),
    "requiredDuringSchedulingIgnoredDuringExecution",
)
# Kubernetes heeds it in both directions: no other task comes to such a pod later, either.
_OTHER_TASKS = {
    "topologyKey": "kubernetes.io/hostname",
    "namespaceSelector": {},
    "labelSelector": {"matchLabels": {names.TASK: "true"}},
}

RequestedGpus = tuple[Directive, Gpus, int]  # the option, what it names, and how many of a node


class Shape(Struct, frozen=True):
    """The nodes of a job, and its tasks, which are processes that srun starts."""

    nodes: int
    tasks_per_node: int
    tasks: int


def put_shape(draft: Draft) -> Shape:
    """Decide the nodes and the tasks of each, as sbatch does."""
    given = draft.given
    nodes = draft.read("nodes", values.count)
    tasks = draft.read("ntasks", values.count)
    per_node = draft.read("ntasks-per-node", values.count)
    source = given.get("nodes") or given.get("ntasks-per-node")
    if nodes is None:
        nodes = -(-tasks // per_node) if tasks and per_node else 1
    elif "-" in given["nodes"].value:
        draft.warn(given["nodes"], f"the task has {nodes} nodes", "write one number")
    if per_node is None:
        per_node = -(-tasks // nodes) if tasks else 1
    if nodes > 1:
        draft.put(("num_nodes",), nodes, source)
    return Shape(nodes, per_node, tasks or nodes * per_node)


def put_sizes(draft: Draft, shape: Shape, requested: Sequence[RequestedGpus]) -> None:
    given = draft.given
    gpus = max((number for _, _, number in requested), default=0)
    each = draft.read("cpus-per-task", values.count)
    per_gpu = draft.read("cpus-per-gpu", values.count)
    cpus = 0
    source = given.get("cpus-per-task") or given.get("ntasks-per-node") or given.get("ntasks")
    if per_gpu and gpus:
        cpus = per_gpu * gpus
        source = given["cpus-per-gpu"]
    elif each or shape.tasks_per_node > 1:
        cpus = shape.tasks_per_node * (each or 1)
    if cpus:
        draft.put(("resources", "cpus"), cpus, source)

    _put_memory(draft, {"mem": 1, "mem-per-cpu": cpus or 1, "mem-per-gpu": gpus or 1})
    if size := draft.read("tmp", values.mebibytes):
        draft.put(("resources", "disk_size"), -(-size // 1024), given["tmp"])


def _put_memory(draft: Draft, factors: Mapping[str, int]) -> None:
    """Request the memory of the only option for it, times its factor."""
    given = {name: draft.given[name] for name in factors if name in draft.given}
    for name, directive in [*given.items()][1:]:
        message = f"--{next(iter(given))} and --{name} exclude each other"
        draft.refuse(directive, message, "keep one")
    for name, directive in given.items():
        if directive.value in _ALL_MEMORY:
            message = "not carried out: a task does not own its cluster nodes"
            draft.warn(directive, message, "write a size")
        elif size := draft.read(name, values.mebibytes):
            memory = values.memory(size * factors[name])
            draft.put(("resources", "memory"), memory, directive)


def find_gpus(draft: Draft, shape: Shape) -> Iterator[RequestedGpus]:
    """Yield the options that request GPUs, and how many of these a node has."""
    for directive, kind, rest in _gres(draft):
        if kind == "gpu" and (gpus := draft.parse(directive, rest or "1", values.gpus)):
            yield directive, gpus, gpus.number
    for name, factor in (("gpus-per-node", 1), ("gpus-per-task", shape.tasks_per_node)):
        if gpus := draft.read(name, values.gpus):
            yield draft.given[name], gpus, gpus.number * factor
    if gpus := draft.read("gpus", values.gpus):
        if gpus.number % shape.nodes:
            message = f"{gpus.number} GPUs cannot be divided by {shape.nodes} nodes"
            draft.refuse(draft.given["gpus"], message, "use --gpus-per-node")
        else:
            yield draft.given["gpus"], gpus, gpus.number // shape.nodes


def _gres(draft: Draft) -> Iterator[tuple[Directive, str, str]]:
    """Yield the generic resources: the kind of each, and what stands after it."""
    if directive := draft.given.get("gres"):
        for item in directive.value.split(","):
            kind, _, rest = item.removeprefix("gres/").partition(":")
            yield directive, kind, rest


def _check_kinds(draft: Draft) -> None:
    for directive, kind, _ in _gres(draft):
        if kind.isdecimal():
            draft.refuse(directive, f"{kind} is no kind of resource", f"such as gpu:{kind}")
        elif kind not in ("gpu", "none"):
            draft.warn(directive, f"not carried out: {printable(kind)} is of Slurm's cluster")


def put_gpus(draft: Draft, requested: Sequence[RequestedGpus], default: str) -> None:
    """Request the GPUs of options; `default` is those of the partition, such as H100 or H100:8."""
    if [kind for _, kind, _ in _gres(draft)].count("gpu") > 1:
        message = "not supported: GPUs of several types on a node"
        draft.refuse(draft.given["gres"], message, "request one type")
    _check_kinds(draft)
    if exclusive := draft.given.get("exclusive"):
        _put_exclusive(draft, exclusive, default, has_gpus=bool(requested))
    if not requested:
        return
    directive, gpus, number = requested[0]
    product = gpus.type.replace("_", "-")  # such as nvidia_a100-sxm4-80gb
    name = draft.setting("gpus").get(gpus.type) or find_model(gpus.type) or find_model(product)
    if not name and rtx_products(gpus.type):
        name = gpus.type.upper()
    if gpus.type and not name:
        kind = printable(gpus.type)
        message = f'"{kind}" is no known type of GPU: any GPU is used'
        draft.warn(
            directive, message, f"name it in the settings: slurm: {{gpus: {{{kind}: A100}}}}"
        )
    name = name or default.partition(":")[0]
    accelerators = f"{name}:{number}" if name else number
    draft.put(("resources", "accelerators"), accelerators, directive)


def _put_exclusive(draft: Draft, directive: Directive, default: str, has_gpus: bool) -> None:
    """Request all GPUs of a node, if the settings have their number, or a node without tasks."""
    if ":" in default and not has_gpus:
        draft.put(("resources", "accelerators"), default, directive)
        draft.note(directive, f"accelerators {default}")
    elif directive.value:
        message = "not carried out: several tasks can share a cluster node"
        draft.warn(directive, message, "write --exclusive, which keeps all other tasks away")
    else:
        draft.put(_ANTI_AFFINITY, [_OTHER_TASKS], directive)


def put_image(draft: Draft) -> None:
    """Set the image that the script names by Pyxis, Singularity or Apptainer, or the settings."""
    named = list(_named_images(draft))
    images = {image for _, _, _, image in named if image}
    for offset, directive, written, image in named:
        if not image:
            base = printable(script.expand(written, draft.body).rpartition("/")[2])
            message = f"not supported: {printable(written)} is no image of a registry"
            hint = f"name the image in the settings: slurm: {{images: {{{base}: IMAGE}}}}"
        elif len(images) > 1:
            message = f"not supported: a pod has one image, and the script names {len(images)}"
            hint = "submit a task for each"
        else:
            continue
        if directive:
            draft.refuse(directive, message, hint)
        else:
            draft.report((offset, "image", message, hint), "error")

    path = ("resources", "image_id")
    if len(images) == 1:
        offset, directive, _, _ = named[0]
        draft.put(path, f"docker:{images.pop()}", directive)
        if not directive:
            draft.place(path, draft.position(offset))
    elif draft.table.get("image") and "image_id" not in draft.data["resources"]:
        draft.put(path, draft.table["image"])


def _named_images(draft: Draft) -> Iterator[tuple[int, Directive | None, str, str]]:
    """Yield where an image is named, how it is written, and the container image that it means."""
    images = draft.setting("images")
    if directive := draft.given.get("container-image"):
        image = script.known_image(directive.value, draft.body, images)
        yield 0, directive, directive.value, image
    for offset, written, image in script.images(draft.body, images):
        yield offset, None, written, image
