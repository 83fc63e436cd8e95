"""The node labels that identify accelerators and spot nodes."""

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from kubectl_sky.spec.accelerator import (
    AMD_MODELS,
    NEURON_MODELS,
    NVIDIA_MODELS,
    VARIANTS,
    Model,
    find_model,
    plain,
    rtx_products,
    same_name,
)
from kubectl_sky.spec.document import FieldError
from kubectl_sky.words import names
from kubectl_sky.words.facts import ClusterNode, Facts

GFD = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
SKYPILOT = "skypilot.co/accelerator"


class RequiredLabel(Struct, frozen=True):
    """A label that a cluster node must have, with one of these values."""

    key: str
    values: tuple[str, ...]


Term = tuple[RequiredLabel, ...]  # all rules must match


class Family(Struct, frozen=True):
    """Accelerators with one resource name, and the values of each label per model."""

    resource: str
    labels: Mapping[str, Callable[[Model], tuple[str, ...]]]
    models: tuple[Model, ...]

    def terms(self, models: Iterable[Model]) -> tuple[Term, ...]:
        """Return a term for each label key, with all values that match one of the models."""
        selected = tuple(models)
        terms = []
        for key, values_of in self.labels.items():
            values = dict.fromkeys(value for model in selected for value in values_of(model))
            if values:
                terms.append((RequiredLabel(key, tuple(values)),))
        return tuple(terms)

    def read(self, value: str) -> str | None:
        """Return the accelerator that a label value means; None for a MIG slice.

        A label name of a model comes first, then the first model in the table whose words are all
        in the value, unless the value names a variant. The table lists longer names first. An
        unknown value is returned as SkyPilot names it.
        """
        text = plain(value)
        if "-MIG-" in text:
            return None
        words = set(re.split(r"[-_. ]", text))
        is_variant = not words.isdisjoint(VARIANTS)
        of_words = (
            model.name
            for model in self.models
            if not is_variant and set(model.name.upper().split("-")) <= words
        )
        return find_model(value) or next(of_words, text) or None


def _lower(model: Model) -> tuple[str, ...]:
    return (names.label_value(model.name.lower()),)


def _upper(model: Model) -> tuple[str, ...]:
    return (names.label_value(model.name.upper()),)


def _products(model: Model) -> tuple[str, ...]:
    name = names.label_value(model.name)
    products = model.products or rtx_products(model.name) or (names.label_value(f"NVIDIA-{name}"),)
    exclusive = (*products, name)
    return (*exclusive, *(f"{product[:56]}-SHARED" for product in exclusive))


def _amd(model: Model) -> tuple[str, ...]:
    name = names.label_value(model.name.upper())
    return tuple(names.label_value(f"AMD_Instinct_{name}{end}") for end in ("_OAM", ""))


NVIDIA = Family(
    "nvidia.com/gpu",
    {
        GFD: _products,
        GKE: lambda model: (model.gke,) if model.gke else (),
        "gpu.nvidia.com/class": lambda model: (*_upper(model), *model.classes),
        SKYPILOT: _lower,
        "karpenter.k8s.aws/instance-gpu-name": _lower,
        "nebius.com/gpu-name": _upper,
    },
    NVIDIA_MODELS,
)
AMD = Family("amd.com/gpu", {"amd.com/gpu.product-name": _amd, SKYPILOT: _lower}, AMD_MODELS)
NEURON = Family(
    "aws.amazon.com/neuron",
    {"karpenter.k8s.aws/instance-accelerator-name": _lower, SKYPILOT: _lower},
    NEURON_MODELS,
)
FAMILIES = (NVIDIA, AMD, NEURON)

_MEMORY = re.compile(r"(?:([a-z]+):)?([0-9]+)([GT])B(\+?)", re.IGNORECASE)
_VENDORS = {"NVIDIA": NVIDIA, "AMD": AMD}


def family_of(name: str) -> Family:
    """Return the family of a name as the user wrote it; unknown names are NVIDIA's.

    Raises FieldError for memory of an unknown vendor.
    """
    memory = _MEMORY.fullmatch(name)
    if memory:
        vendor = (memory[1] or "nvidia").upper()
        if vendor not in _VENDORS:
            path = ("resources", "accelerators", name)
            raise FieldError(path, "unknown vendor of GPUs", "the vendors are nvidia and amd")
        return _VENDORS[vendor]
    if re.fullmatch(r"MI[0-9]{2,3}[A-Z]?", name.upper()):
        return AMD
    return NEURON if name.upper() in (model.name.upper() for model in NEURON.models) else NVIDIA


def models(name: str) -> tuple[Model, ...]:
    """Return the models that a name matches: itself and variants with more memory.

    `80GB+` matches all models with at least that memory. An unknown name is a model of that name.
    Raises FieldError for a memory size that no model has.
    """
    family = family_of(name)
    memory = _MEMORY.fullmatch(name)
    if not memory:
        matching = tuple(model for model in family.models if matches(name, model.name))
        return matching or (Model(re.sub("-SHARED$", "", name, flags=re.IGNORECASE)),)

    size = int(memory[2]) * (1024 if memory[3].upper() == "T" else 1)
    matching = tuple(
        model
        for model in family.models
        if (model.memory >= size if memory[4] else model.memory == size)
    )

    if not matching:
        sizes = sorted({model.memory for model in family.models})
        raise FieldError(
            ("resources", "accelerators", name),
            "no known GPU has this memory",
            f"known sizes: {', '.join(map(str, sizes))} GB",
        )
    return matching


def is_known(name: str) -> bool:
    return bool(_MEMORY.fullmatch(name) or find_model(name) or rtx_products(name))


def matches(requested_name: str, model: str) -> bool:
    """Return whether a model fits a request: A100 accepts A100-80GB, not vice versa.

    Variants are other cards: RTX3090 and RTX3090-TI do not fit each other.
    """
    requested = find_model(requested_name) or plain(requested_name)
    candidate = find_model(model) or plain(model)
    prefix, dash, rest = candidate.upper().partition(f"{requested.upper()}-")
    is_larger = bool(dash) and not prefix and VARIANTS.keys().isdisjoint(rest.split("-"))
    return same_name(requested, candidate) or is_larger


def from_labels(labels: Mapping[str, str]) -> list[str]:
    models = [
        family.read(labels[key]) for family in FAMILIES for key in family.labels if labels.get(key)
    ]
    return [name for name in (*models, labels.get(TPU_LABEL)) if name]


def from_product(name: str) -> str:
    """Return the model of a product as drivers name it: `NVIDIA H100 80GB HBM3`; may be empty."""
    family = AMD if re.match("AMD|Instinct", name, re.IGNORECASE) else NVIDIA
    return family.read(name.replace(" ", "-")) or ""


def missing(kinds: Iterable[str], cluster_nodes: Iterable[ClusterNode]) -> tuple[str, str]:
    """Return two clauses: `no cluster node has an H100`, and `there are A100 (8)` with counts."""
    counts: dict[str, int] = {}
    for cluster_node in cluster_nodes:
        labelled = {name: _count(cluster_node) for name in from_labels(cluster_node.labels)[:1]}
        for name, count in (labelled or cluster_node.devices).items():
            counts[name] = counts.get(name, 0) + count
    available = ", ".join(f"{name} ({counts[name]})" for name in sorted(counts))
    wanted = " or ".join(map(_with_article, kinds))
    return f"no cluster node has {wanted}", f"there are {available or 'no GPUs'}"


def _with_article(kind: str) -> str:
    if _MEMORY.fullmatch(kind):
        return f"a GPU with {kind}"
    return f"an {kind}" if kind[:1].upper() in "AEFHILMNORSX" else f"a {kind}"


def _count(cluster_node: ClusterNode) -> int:
    sizes = (cluster_node.allocatable.get(resource, "") for resource in RESOURCES)
    return sum(int(size) for size in sizes if size.isdecimal())


TPU_RESOURCE = "google.com/tpu"
RESOURCES: tuple[str, ...] = (*(family.resource for family in FAMILIES), TPU_RESOURCE)
TPU_LABEL = "cloud.google.com/gke-tpu-accelerator"


def is_tpu(name: str) -> bool:
    return name.lower().startswith("tpu-")


SPOT_RULES = (
    RequiredLabel("cloud.google.com/gke-spot", ("true",)),
    RequiredLabel("karpenter.sh/capacity-type", ("spot",)),
    RequiredLabel("eks.amazonaws.com/capacityType", ("SPOT",)),
    RequiredLabel("kubernetes.azure.com/scalesetpriority", ("spot",)),
)


def present_spot_rules(facts: Facts) -> tuple[RequiredLabel, ...]:
    return tuple(
        rule
        for rule in SPOT_RULES
        if any(
            cluster_node.labels.get(rule.key) in rule.values for cluster_node in facts.cluster_nodes
        )
    )


def with_rules(terms: tuple[Term, ...], rules: tuple[RequiredLabel, ...]) -> tuple[Term, ...]:
    if not rules:
        return terms
    return tuple((*term, rule) for term in terms or ((),) for rule in rules)
