"""Names of accelerators and their node labels."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubectl_sky.errors import UserError
from kubectl_sky.plan.accelerators import (
    AMD,
    FAMILIES,
    NEURON,
    NVIDIA,
    Family,
    family_of,
    is_known,
    matches,
    models,
)

READ = {
    "NVIDIA-A100-SXM4-80GB": "A100-80GB",
    "NVIDIA-A100-80GB-PCIe": "A100-80GB",
    "NVIDIA-A100-SXM4-40GB": "A100",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": None,
    "Tesla-T4-SHARED": "T4",
    "NVIDIA-H100-80GB-HBM3": "H100",
    "nvidia-h100-80gb": "H100",
    "nvidia-h100-mega-80gb": "H100-MEGA",
    "H100_NVLINK_80GB": "H100",
    "nvidia-tesla-v100": "V100",
    "Tesla-V100-SXM2-32GB": "V100-32GB",
    "a10g": "A10G",
    "NVIDIA-L40S": "L40S",
    "NVIDIA-RTX-6000-Ada-Generation": "RTX6000-Ada",
    "NVIDIA-GeForce-RTX-2080": "RTX2080",
    "NVIDIA-": None,
}


@pytest.mark.parametrize("value", READ)
def test_family_label_is_read_as_model(value: str) -> None:
    assert NVIDIA.read(value) == READ[value]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.resource)
def test_family_labels_of_model_are_read_as_compatible_model(family: Family) -> None:
    for model in family.models:
        for term in family.terms([model]):
            for value in term[0].values:
                read = family.read(value)
                assert read and matches(read, model.name), f"{value} of {model.name} reads {read}"


LABELS = {"H100": "nvidia-h100-80gb", "A100-80GB": "nvidia-a100-80gb", "A30": "NVIDIA-A30"}


@pytest.mark.parametrize("name", LABELS)
def test_family_terms_have_the_labels_of_clouds_and_operators(name: str) -> None:
    rules = [rule for term in NVIDIA.terms(models(name)) for rule in term]
    assert LABELS[name] in {text for rule in rules for text in rule.values}


MATCHES = [
    ("A100", "A100-80GB", True),
    ("a100", "A100", True),
    ("A100-80GB", "A100", False),
    ("A100-40GB", "A100", True),
    ("H100-80GB", "H100", True),
    ("H200", "H200-SXM-80GB", True),
    ("L4", "L40", False),
    ("A10", "A10G", False),
    ("H100-SXM", "H100", True),
    ("A100-80GB-SXM", "A100", False),
    ("RTX3070Ti", "RTX3070-TI", True),
    ("RTX4090-SHARED", "RTX4090", True),
]


@pytest.mark.parametrize(("asked", "model", "expected"), MATCHES)
def test_matches_compares_model_names(asked: str, model: str, expected: bool) -> None:
    assert matches(asked, model) is expected


def test_family_of_name_selects_vendor() -> None:
    assert family_of("MI300X") is AMD
    assert family_of("Trainium2") is NEURON
    assert family_of("A100") is family_of("whatever") is NVIDIA
    assert family_of("amd:192GB") is AMD
    assert [is_known(name) for name in ("A100", "mi300x", "Inferentia", "H10")] == [
        True,
        True,
        True,
        False,
    ]


def test_models_by_memory_size_returns_matching_gpus() -> None:
    assert [model.name for model in models("141GB")] == ["H200"]
    names = {model.name for model in models("nvidia:80GB+")}
    assert {"H100", "A100-80GB", "B200"} <= names
    assert not {"A100", "L4"} & names
    with pytest.raises(UserError, match=r"no known GPU has this memory; known sizes: 8,"):
        models("7GB")
    with pytest.raises(UserError, match="unknown vendor"):
        models("intel:80GB")


@example("A" * 55 + ".A")
@given(st.from_regex(re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.+ ]{0,61}[A-Za-z0-9+]?"), fullmatch=True))
def test_family_terms_of_random_name_are_valid_labels(name: str) -> None:
    try:
        terms = family_of(name).terms(models(name))
    except UserError:
        return
    assert terms
    for term in terms:
        for value in term[0].values:
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)
