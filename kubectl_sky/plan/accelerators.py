"""The table of accelerators and the node labels that identify them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.spec.document import FieldError

GFD = "nvidia.com/gpu.product"
GKE = "cloud.google.com/gke-accelerator"
SKYPILOT = "skypilot.co/accelerator"


@dataclass(frozen=True)
class Rule:
    """A label that a cluster node must have, with one of these values."""

    key: str
    values: tuple[str, ...]


Term = tuple[Rule, ...]  # all rules must match


@dataclass(frozen=True)
class Model:
    """An accelerator by SkyPilot's name, its memory in GB, and its names in labels.

    `products` are NVIDIA's names as written by GPU feature discovery, `gke` is Google's name, and
    `classes` are CoreWeave's names in addition to the plain one.
    """

    name: str
    memory: int = 0
    products: tuple[str, ...] = ()
    gke: str = ""
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
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
                terms.append((Rule(key, tuple(values)),))
        return tuple(terms)

    def read(self, value: str) -> str | None:
        """Return the accelerator that a label value means; None for a MIG slice.

        An exact match with a label name of a model comes first, then the first model in the table
        whose words are all in the value. The table lists longer names first. An unknown value is
        returned without its vendor prefix.
        """
        text = value.upper().removesuffix("-SHARED")
        if "-MIG-" in text:
            return None
        words = set(re.split(r"[-_. ]", text))
        for model in self.models:
            if text in (label.upper() for label in (*model.products, model.gke, *model.classes)):
                return model.name
        for model in self.models:
            if set(model.name.upper().split("-")) <= words:
                return model.name
        return re.sub(r"RTX-", "RTX", re.sub(r"^(NVIDIA|TESLA)-|GEFORCE-", "", text)) or None


def _lower(model: Model) -> tuple[str, ...]:
    return (names.label_value(model.name.lower()),)


def _upper(model: Model) -> tuple[str, ...]:
    return (names.label_value(model.name.upper()),)


def _products(model: Model) -> tuple[str, ...]:
    name = names.label_value(model.name)
    return (*model.products, name) if model.products else (name, f"NVIDIA-{name}"[:63])


def _gke(model: Model) -> tuple[str, ...]:
    return (model.gke,) if model.gke else ()


def _classes(model: Model) -> tuple[str, ...]:
    return (*_upper(model), *model.classes)


def _amd(model: Model) -> tuple[str, ...]:
    name = names.label_value(model.name.upper())
    return f"AMD_Instinct_{name}_OAM"[:63], f"AMD_Instinct_{name}"[:63]


# Longer names come before their prefixes, because `read` takes the first match.
NVIDIA = Family(
    "nvidia.com/gpu",
    {
        GFD: _products,
        GKE: _gke,
        "gpu.nvidia.com/class": _classes,
        SKYPILOT: _lower,
        "karpenter.k8s.aws/instance-gpu-name": _lower,
        "nebius.com/gpu-name": _upper,
    },
    (
        Model("GB300", 288, ("NVIDIA-GB300",), "nvidia-gb300"),
        Model("GB200", 192, ("NVIDIA-GB200",), "nvidia-gb200"),
        Model("B300", 288, ("NVIDIA-B300", "NVIDIA-B300-SXM6-AC")),
        Model("B200", 192, ("NVIDIA-B200",), "nvidia-b200"),
        Model("B100", 192, ("NVIDIA-B100",)),
        Model("GH200", 96, ("NVIDIA-GH200-480GB", "NVIDIA-GH200-144G-HBM3e")),
        Model("H200", 141, ("NVIDIA-H200", "NVIDIA-H200-NVL"), "nvidia-h200-141gb"),
        Model("H100-MEGA", 80, gke="nvidia-h100-mega-80gb"),
        Model(
            "H100",
            80,
            ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL"),
            "nvidia-h100-80gb",
            ("H100_NVLINK_80GB", "H100_PCIE"),
        ),
        Model(
            "A100-80GB",
            80,
            ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe", "A100-SXM4-80GB"),
            "nvidia-a100-80gb",
            ("A100_NVLINK_80GB", "A100_PCIE_80GB"),
        ),
        Model(
            "A100",
            40,
            (
                "NVIDIA-A100-SXM4-40GB",
                "NVIDIA-A100-PCIE-40GB",
                "A100-SXM4-40GB",
                "A100-PCIE-40GB",
            ),
            "nvidia-tesla-a100",
            ("A100_NVLINK", "A100_PCIE_40GB"),
        ),
        Model("A10G", 24, ("NVIDIA-A10G",)),
        Model("A10", 24, ("NVIDIA-A10",)),
        Model("A16", 16, ("NVIDIA-A16",)),
        Model("A30", 24, ("NVIDIA-A30",)),
        Model("A40", 48, ("NVIDIA-A40",)),
        Model(
            "RTXPRO6000",
            96,
            ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",),
            "nvidia-rtx-pro-6000",
        ),
        Model("RTX6000-Ada", 48, ("NVIDIA-RTX-6000-Ada-Generation",)),
        Model("RTX5090", 32, ("NVIDIA-GeForce-RTX-5090",)),
        Model("RTX4090", 24, ("NVIDIA-GeForce-RTX-4090",)),
        Model("RTX3090", 24, ("NVIDIA-GeForce-RTX-3090",)),
        Model("L40S", 48, ("NVIDIA-L40S",)),
        Model("L40", 48, ("NVIDIA-L40",)),
        Model("L4", 24, ("NVIDIA-L4",), "nvidia-l4"),
        Model("A6000", 48, ("NVIDIA-RTX-A6000",), "", ("RTX_A6000",)),
        Model("A5000", 24, ("NVIDIA-RTX-A5000",), "", ("RTX_A5000",)),
        Model("A4000", 16, ("NVIDIA-RTX-A4000",), "", ("RTX_A4000",)),
        Model(
            "V100-32GB",
            32,
            ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB", "Tesla-V100-PCIE-32GB"),
        ),
        Model(
            "V100",
            16,
            ("Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB"),
            "nvidia-tesla-v100",
        ),
        Model("P100", 16, ("Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB"), "nvidia-tesla-p100"),
        Model("P40", 24, ("Tesla-P40",)),
        Model("P4000", 8, ("Quadro-P4000",)),
        Model("P4", 8, ("Tesla-P4",), "nvidia-tesla-p4"),
        Model("T4g", 16, ("NVIDIA-T4G",)),
        Model("T4", 16, ("Tesla-T4",), "nvidia-tesla-t4"),
        Model("K80", 12, ("Tesla-K80",), "nvidia-tesla-k80"),
        Model("M60", 8, ("Tesla-M60",)),
    ),
)
AMD = Family(
    "amd.com/gpu",
    {"amd.com/gpu.product-name": _amd, SKYPILOT: _lower},
    (
        Model("MI355X", 288),
        Model("MI325X", 256),
        Model("MI300X", 192),
        Model("MI250X", 128),
        Model("MI250", 128),
        Model("MI210", 64),
        Model("MI100", 32),
    ),
)
NEURON = Family(
    "aws.amazon.com/neuron",
    {"karpenter.k8s.aws/instance-accelerator-name": _lower, SKYPILOT: _lower},
    (Model("Trainium2", 96), Model("Trainium", 32), Model("Inferentia2", 32), Model("Inferentia")),
)
FAMILIES = (NVIDIA, AMD, NEURON)

_ALIASES = {"A100-40GB": "A100", "H100-80GB": "H100", "H100-MEGA-80GB": "H100-MEGA"}
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
    if memory:
        return _sized(family, name, memory)
    matching = tuple(model for model in family.models if matches(name, model.name))
    return matching or (Model(name),)


def is_known(name: str) -> bool:
    """Return whether the table has the name."""
    return (
        any(model.memory or model.products for model in models(name)) or family_of(name) == NEURON
    )


def matches(requested_name: str, model: str) -> bool:
    """Return whether a model fits a request: A100 accepts A100-80GB, not vice versa."""
    requested, candidate = (
        _ALIASES.get(requested_name.upper(), requested_name).upper(),
        model.upper(),
    )
    return candidate == requested or candidate.startswith(f"{requested}-")


def _sized(family: Family, name: str, memory: re.Match[str]) -> tuple[Model, ...]:
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


def from_labels(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the accelerators that the labels of a cluster node name."""
    for family in FAMILIES:
        for key in family.labels:
            name = family.read(labels[key]) if labels.get(key) else None
            if name:
                yield name
