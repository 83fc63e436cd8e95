"""Quantities are parsed, summed and written as in Kubernetes."""

import pytest

from kubectl_sky_practice.quantities import Quantity, needs, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        (".5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("1e3", "1e3"),
        ("12E2", "1200"),
        ("1e-3", "1e-3"),
        ("0.1n", "1n"),
        ("-5", "-5"),
        ("+3", "3"),
    ],
)
def test_quantity_is_written_in_canonical_form(text: str, canonical: str) -> None:
    """Recorded from an API server of version 1.36."""
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "1gi", "e3", "--1", "1KiB", "."])
def test_quantity_invalid_text_is_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_quantity_sum_keeps_format_of_first() -> None:
    def total(*amounts: str) -> str:
        quantity = Quantity(0)
        for amount in amounts:
            quantity += parse(amount)
        return str(quantity)

    assert total("512Mi", "512Mi") == "1Gi"
    assert total("500m", "1") == "1500m"
    assert total("1Gi", "1G") == "2073741824"
    assert str(parse("1Gi") - parse("512Mi")) == "512Mi"


def test_needs_of_pod_include_init_containers_and_overhead() -> None:
    def asks(cpu: str, **more: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {"containers": [asks("1"), asks("500m")]}
    assert str(needs(spec)["cpu"]) == "1500m"
    assert str(needs({**spec, "initContainers": [asks("3"), asks("2")]})["cpu"]) == "3"
    beside = {**spec, "initContainers": [asks("1", restartPolicy="Always"), asks("3")]}
    assert str(needs(beside)["cpu"]) == "4"
    assert str(needs({**spec, "overhead": {"cpu": "1"}})["cpu"]) == "2500m"
    assert needs(spec, "limits") == {}
