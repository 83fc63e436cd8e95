"""The known accelerators, and the forms in which tasks request them."""

import difflib
import re
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, isfinite

from msgspec import Struct

from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Data, Path

MAX_COUNT = 1024

_MEMORY = re.compile(r"[0-9]{1,6}[GMT]B\+?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.+ ]{0,61}[A-Za-z0-9+]?")
_EXPECTED = 'expected a count such as 1, a name such as V100, or both: "V100:2"'


class Model(Struct, frozen=True):
    """An accelerator by SkyPilot's name, its memory in GB, and its names in labels.

    `products` are NVIDIA's names as written by GPU feature discovery, `gke` is Google's name, and
    `classes` are CoreWeave's names in addition to the plain one.
    """

    name: str
    memory: int = 0
    products: tuple[str, ...] = ()
    gke: str = ""
    classes: tuple[str, ...] = ()


# Longer names come before their prefixes, because label values are matched in this order.
NVIDIA_MODELS = (
    Model("GB300", 288, ("NVIDIA-GB300",), "nvidia-gb300"),
    Model("GB200", 192, ("NVIDIA-GB200",), "nvidia-gb200"),
    Model("B300", 288, ("NVIDIA-B300", "NVIDIA-B300-SXM6-AC")),
    Model("B200", 192, ("NVIDIA-B200",), "nvidia-b200"),
    Model("B100", 192, ("NVIDIA-B100",)),
    Model("GH200", 96, ("NVIDIA-GH200-480GB", "NVIDIA-GH200-144G-HBM3e")),
    Model("H200", 141, ("NVIDIA-H200", "NVIDIA-H200-NVL"), "nvidia-h200-141gb"),
    Model("H800", 80),
    Model("H20", 96),
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
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "A100-SXM4-40GB", "A100-PCIE-40GB"),
        "nvidia-tesla-a100",
        ("A100_NVLINK", "A100_PCIE_40GB"),
    ),
    Model("A800", 80, ("NVIDIA-A800-SXM4-80GB", "NVIDIA-A800-80GB-PCIe")),
    Model("A10G", 24, ("NVIDIA-A10G",)),
    Model("A10", 24, ("NVIDIA-A10",)),
    Model("A16", 16, ("NVIDIA-A16",)),
    Model("A2", 16),
    Model("A30", 24, ("NVIDIA-A30",)),
    Model("A40", 48, ("NVIDIA-A40",)),
    Model(
        "RTXPRO6000",
        96,
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
            "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
        ),
        "nvidia-rtx-pro-6000",
    ),
    Model("RTX6000-Ada", 48, ("NVIDIA-RTX-6000-Ada-Generation",)),
    Model("RTX6000", 24, ("Quadro-RTX-6000",)),
    Model("RTX5090-D", 32, ("NVIDIA-GeForce-RTX-5090-D",)),
    Model("RTX4090-D", 24, ("NVIDIA-GeForce-RTX-4090-D",)),
    Model("RTX5090", 32, ("NVIDIA-GeForce-RTX-5090",)),
    Model("RTX4090", 24, ("NVIDIA-GeForce-RTX-4090",)),
    Model("RTX3090", 24, ("NVIDIA-GeForce-RTX-3090",)),
    Model("L40S", 48, ("NVIDIA-L40S",)),
    Model("L40", 48, ("NVIDIA-L40",)),
    Model("L20", 48),
    Model("L4", 24, ("NVIDIA-L4",), "nvidia-l4"),
    Model("A6000", 48, ("NVIDIA-RTX-A6000",), "", ("RTX_A6000",)),
    Model("A5000", 24, ("NVIDIA-RTX-A5000",), "", ("RTX_A5000",)),
    Model("A4000", 16, ("NVIDIA-RTX-A4000",), "", ("RTX_A4000",)),
    Model(
        "V100-32GB", 32, ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB", "Tesla-V100-PCIE-32GB")
    ),
    Model("V100", 16, ("Tesla-V100-SXM2-16GB", "Tesla-V100-PCIE-16GB"), "nvidia-tesla-v100"),
    Model("P100", 16, ("Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB"), "nvidia-tesla-p100"),
    Model("P40", 24, ("Tesla-P40",)),
    Model("P4000", 8, ("Quadro-P4000",)),
    Model("P4", 8, ("Tesla-P4",), "nvidia-tesla-p4"),
    Model("T4g", 16, ("NVIDIA-T4G",)),
    Model("T4", 16, ("Tesla-T4",), "nvidia-tesla-t4"),
    Model("K80", 12, ("Tesla-K80",), "nvidia-tesla-k80"),
    Model("M60", 8, ("Tesla-M60",)),
    Model("M4000", 8, ("Quadro-M4000",)),
)
AMD_MODELS = (
    Model("MI355X", 288),
    Model("MI325X", 256),
    Model("MI300X", 192),
    Model("MI300", 192),
    Model("MI250X", 128),
    Model("MI250", 128),
    Model("MI210", 64),
    Model("MI100", 32),
)
NEURON_MODELS = (
    Model("Trainium2", 96),
    Model("Trainium", 32),
    Model("Inferentia2", 32),
    Model("Inferentia"),
)
_MODELS = (*NVIDIA_MODELS, *AMD_MODELS, *NEURON_MODELS)
# With other common names, to suggest one for a misspelt name.
MODEL_NAMES = (
    *(model.name for model in _MODELS),
    *("H100-80GB", "A100-40GB", "RTX3080", "RTXA4500"),
)
_COUNT = r"(1?[0-9])"  # more is a memory size: A100 80
_WITH_COUNT = re.compile(rf"{_COUNT}(?: *x *| +)(.+)|(.+?)(?: *x *| +){_COUNT}", re.IGNORECASE)
_ONLY_COUNT = re.compile(rf"{_COUNT} *x|x *{_COUNT}", re.IGNORECASE)
_AFTER_HYPHEN = re.compile(r"(.+)-([1248])")  # larger numbers may be GB
_FORM_FACTOR = re.compile(r"-(SXM[0-9]?|PCIE|NVL|NVLINK)$")
_NEEDLESS = re.compile(r"(?<=LAPTOP)-GPU$|(?<=ADA)-GENERATION|(?<=RTXPRO)-|-BLACKWELL$")


def plain(value: str) -> str:
    """Return a name or label value in upper case, without vendor, series and `-SHARED`.

    GPU feature discovery appends `-SHARED` if pods share the GPU by time slicing.
    """
    text = value.upper().removesuffix("-SHARED")
    text = re.sub(r"^(NVIDIA-)?(TESLA-|GEFORCE-)?", "", text).replace("RTX-", "RTX")
    return _NEEDLESS.sub("", text)


def same_name(first: str, second: str) -> bool:
    """Return whether two names differ only by case, separators and what `plain` removes."""
    return _key(first) == _key(second)


def _key(name: str) -> str:
    return re.sub(r"[-_. ]", "", plain(name))


_NAMES = {
    _key(alias): model.name
    for model in reversed(_MODELS)  # the first model of a name wins
    for alias in (
        f"{model.name}-{model.memory}GB",
        *(*model.products, *model.classes, model.gke or model.name, model.name),
    )
}


def find_model(name: str) -> str:
    """Return the model that a name or a label value means; "" if unknown.

    `H100-80GB`, `H100-SXM` and `NVIDIA-H100-80GB-HBM3` are an H100.
    """
    without_form_factor = _FORM_FACTOR.sub("", plain(name))
    return _NAMES.get(_key(name)) or _NAMES.get(_key(without_form_factor), "")


# NVIDIA's spelling of what follows a card's number. Each of them makes it another card.
VARIANTS = {"TI": "Ti", "SUPER": "SUPER", "D": "D", "LAPTOP": "Laptop-GPU"}
_CARD = re.compile(
    rf"(QUADRO-)?([GR]TX)-?(PRO)?(A?[0-9]{{4}})(-?SFF)?(-?ADA)?((?:-?(?:{'|'.join(VARIANTS)}))*)"
)


def rtx_products(name: str) -> tuple[str, ...]:
    """Return NVIDIA's names of any GeForce, RTX or Quadro card, as in Model; empty for others."""
    card = _CARD.fullmatch(plain(name))
    if not card:
        return ()

    quadro, series, pro, number, small, ada, variants = card.groups()
    parts = [series, pro, number, small and "SFF", ada and "Ada-Generation", pro and "Blackwell"]
    parts += [VARIANTS[word] for word in re.findall("|".join(VARIANTS), variants)]
    text = "-".join(filter(None, parts))

    if quadro:
        return (f"Quadro-{text}",)

    brands = ["GeForce-"]
    if pro or ada or number.startswith("A"):  # of a workstation
        brands = [""]
    elif series == "RTX":
        brands = ["GeForce-", ""]
    return tuple(f"NVIDIA-{brand}{text}" for brand in brands)


class Accelerator(Struct, frozen=True):
    """GPUs of one node; `name` is None for any GPU of the cluster."""

    name: str | None
    count: int


class RequestedAccelerator(Struct, frozen=True):
    """A requested candidate, as the user wrote it: the count may be a fraction."""

    name: str | None
    count: Fraction

    @property
    def rounded(self) -> Accelerator:
        """Return the candidate in whole GPUs: Kubernetes allocates no fractions."""
        return Accelerator(self.name, ceil(self.count))


class InvalidAccelerator(ValueError):
    """The text of an accelerator is invalid; `keys` lead to it from the field."""

    def __init__(self, message: str, text: str, keys: Path = ()) -> None:
        super().__init__(message)
        self.text = text
        self.keys = keys


def candidates(value: Data) -> tuple[RequestedAccelerator, ...]:
    """Parse the candidates of `accelerators`.

    Forms: 1, "V100", "V100:2", "{V100:2, A100}", {V100: 2}, {"V100:2": null}, or a list of these.
    Raises InvalidAccelerator with a message for the user.
    """
    return tuple(candidate for _, _, candidate in entries(value))


def entries(value: Data) -> Iterator[tuple[Path, str, RequestedAccelerator]]:
    """Yield the candidates of `accelerators`: the keys that lead to each, its text and meaning.

    Raises InvalidAccelerator.
    """
    count = 0
    for keys, text in _candidate_texts(value):
        count += 1
        try:
            yield keys, text, _parse_candidate(text)
        except ValueError as error:
            raise InvalidAccelerator(str(error), text, keys) from None
    if not count:
        raise InvalidAccelerator(_EXPECTED, "")


def _candidate_texts(value: Data) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for name, count in value.items():
            text = str(name) if count is None else f"{name}:{count}"
            yield (name,), text
    elif isinstance(value, list):
        for index, item in enumerate(value):
            texts = _candidate_texts(item) if isinstance(item, dict) else [((), str(item))]
            yield from (((index, *keys), text) for keys, text in texts)
    elif isinstance(value, str) and value.strip().startswith("{"):
        for item in value.strip().strip("{}").split(","):
            yield (), item.strip(" '\"")
    elif isinstance(value, float) and not isfinite(value):
        raise InvalidAccelerator(_EXPECTED, str(value))
    else:
        yield (), str(value)


def suggestion(name: str) -> str:
    """Return the known model that a name misspells; "" if there is none.

    Only names whose digits differ by no more than zeros at the end are compared: A1000 and A100.
    """
    simplified_name = _simplify(name)
    names = {_simplify(model): model for model in MODEL_NAMES}
    if simplified_name in names:
        model = names[simplified_name]
        return "" if model.upper() == name.upper() else model

    if count := _ONLY_COUNT.fullmatch(name.strip()):
        return count[1] or count[2]
    match = _AFTER_HYPHEN.fullmatch(name)
    if match and (model := names.get(_simplify(match[1]), "")):
        return f"{model}:{match[2]}"
    if match := _WITH_COUNT.fullmatch(name.strip()):
        model = names.get(_simplify(match[2] or match[3]), "")
        return f"{model}:{match[1] or match[4]}" if model else ""
    if model := names.get(simplified_name.removeprefix("RTX"), ""):
        return model
    if find_model(name) or rtx_products(name):
        return ""
    if several := similar(name):
        return several

    digits = _digits(simplified_name)
    alike = [text for text in names if _digits(text) == digits]
    matches = difflib.get_close_matches(simplified_name, alike, n=1, cutoff=0.7) if digits else []
    return names[matches[0]] if matches else ""


# Words for GPUs of any model.
_ANY = frozenset({"GPU", "GPUS", "NVIDIA", "CUDA", "ANY", "ALL"})
_RESOURCE = re.compile(r"(?:nvidia|amd)\.com/gpu[:= ]*([0-9]{1,3})?")
_SEVERAL = re.compile(r"\s*(?:[,|/]|\bor\b)\s*")
_AROUND_COUNT = re.compile(
    r"(.+?)\s*[:*=@x ]+\s*([1-9][0-9]{0,2})\s*(?:x|\+|gpus?)?", re.IGNORECASE
)
_MAX_TEXT = 60


def is_none(name: str) -> bool:
    """Report whether a name is a word for a node without GPUs."""
    return name.upper() in ("NONE", "CPU", "NO")


def is_any(name: str) -> bool:
    """Report whether a name is a word for GPUs of any model."""
    return name.upper() in _ANY


def similar(text: str) -> str:
    """Return the accelerators that an invalid text means, as YAML; "" if it means none."""
    text = text.strip()[:_MAX_TEXT]
    if resource := _RESOURCE.fullmatch(text):
        return resource[1] or "1"
    if text.isdigit() and find_model(f"RTX{text}"):
        return f"RTX{text}"
    names = _SEVERAL.split(text)
    if len(names) > 1 and all(find_model(name.partition(":")[0]) for name in names):
        return f"[{', '.join(names)}]"
    around = _AROUND_COUNT.fullmatch(text)
    if around and find_model(around[1]):
        return f"{around[1]}:{around[2]}"
    return ""


def _digits(name: str) -> str:
    return re.sub(r"\D", "", name).rstrip("0")


def _simplify(name: str) -> str:
    """Return a name without the differences that people overlook: O and 0, I and 1."""
    return re.sub(r"[-_ ]", "", name.upper()).replace("O", "0").replace("I", "1")


def _parse_candidate(text: str) -> RequestedAccelerator:
    """Parse one candidate.

    SkyPilot's memory form (`80GB+`, `nvidia:80GB:2`) is kept as a name.
    """
    text = text.strip()
    head, colon, tail = text.rpartition(":")
    if quantity.number(text) is not None:
        return RequestedAccelerator(None, _check_count(text))
    if not colon:
        return RequestedAccelerator(_check_name(text), Fraction(1))
    if quantity.number(tail) is None and _is_memory(tail):
        return RequestedAccelerator(_check_name(text), Fraction(1))
    return RequestedAccelerator(_check_name(head.rstrip()), _check_count(tail))


def _is_memory(text: str) -> bool:
    return bool(_MEMORY.fullmatch(text))


def _check_name(text: str) -> str:
    name, *memory = text.split(":")
    if not _NAME.fullmatch(name) or not all(map(_is_memory, memory)):
        raise ValueError(_EXPECTED)
    return text


def _check_count(text: str) -> Fraction:
    count = quantity.number(text)
    if count is None:
        raise ValueError("the count must be a number")
    if count <= 0:
        raise ValueError("the count must be more than 0")
    if count > MAX_COUNT:
        raise ValueError(f"more than {MAX_COUNT} GPUs per node are not supported")
    return count
