"""What nvidia-smi and rocm-smi print, and what a stranger prints in their place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.gpus import smi
from kubectl_sky.gpus.smi import Gpu
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.words.documents import as_json

NODE = NodeStatus(1, "node-1", "train-x-node-1", pod="pod-a")
NVIDIA = b"""nvidia-smi
0, NVIDIA A100-SXM4-40GB, 37, 1024, 40960, 41, 62.13, 400.00
1, NVIDIA GB10, 0, [N/A], [N/A], 35, 4.02, [N/A]
"""
CARD = {
    "Temperature (Sensor edge) (C)": "N/A",
    "Temperature (Sensor junction) (C)": "44.0",
    "Temperature (Sensor memory) (C)": "36.0",
    "Current Socket Graphics Package Power (W)": "137.0",
    "Max Graphics Package Power (W)": "750.0",
    "GPU use (%)": "12",
    "VRAM Total Memory (B)": "206141652992",
    "VRAM Total Used Memory (B)": "297791488",
    "Card Series": "AMD Instinct MI300X",
    "Card Model": "0x74a1",
}


def rocm(value: object) -> bytes:
    return b"rocm-smi\n" + json.dumps(value).encode()


def test_nvidia_smi_values_have_units_of_fields() -> None:
    assert smi.read(NODE, NVIDIA) == [
        Gpu(1, "pod-a", 0, "NVIDIA A100-SXM4-40GB", 37, 2**30, 40 * 2**30, 41, 62.13, 400),
        Gpu(1, "pod-a", 1, "NVIDIA GB10", 0, None, None, 35, 4.02, None),
    ]


def test_rocm_smi_known_values_are_read() -> None:
    warning = b"rocm-smi\nWARNING: AMD GPU device(s) is/are in a low-power state.\n\n"
    expected = [
        Gpu(
            1, "pod-a", 3, "AMD Instinct MI300X", 12, 297791488, 206141652992, 44, 137, 750
        )
    ]  # fmt: skip
    text = json.dumps({"card3": CARD, "system": {"Driver version": "6.8"}})
    assert smi.read(NODE, warning + text.encode() + b"\n") == expected
    older = {"Average Graphics Package Power (W)": "39.0", "Card series": "Arcturus"}
    (gpu,) = smi.read(NODE, rocm({"card0": older}))
    assert (gpu.name, gpu.power, gpu.utilization) == ("Arcturus", 39, None)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"nvidia-smi\n",
        b"nvidia-smi\nNo devices were found\n",
        b"nvidia-smi\n\xb2, x, 1, 2, 3, 4, 5, 6\n",
        b"rocm-smi\n",
        b"rocm-smi\n{",
        b"rocm-smi\n[1]",
        b"rocm-smi\n" + b'{"card0": ' * 100_000,
        b"rocm-smi\n" + b'{"card0": ' + b"9" * 50_000 + b"}",
        rocm({"card0": 1, "cardX": CARD, "card": CARD}),
        b"other\n0, NVIDIA, 1, 2, 3, 4, 5, 6\n",
    ],
)
def test_smi_output_without_gpu_is_refused(output: bytes) -> None:
    with pytest.raises(ValueError, match="it prints no GPU"):
        smi.read(NODE, output)


def test_smi_output_of_stranger_is_bounded_and_harmless() -> None:
    line = b"0, \x1b]0;owned\x07a\r\x1b[2J" + b"n" * 900 + b", -1, 1e9, nan, 0x10, 1" + b"0" * 99
    (gpu,) = smi.read(NODE, b"nvidia-smi\n" + line + b", 5\n")
    assert len(gpu.name) == 64 and gpu.name.isprintable()
    assert as_json(gpu) == {
        "rank": 1,
        "pod": "pod-a",
        "gpu": 0,
        "name": gpu.name,
        "utilization_percent": None,
        "memory_used_bytes": None,
        "memory_total_bytes": None,
        "temperature_celsius": None,
        "power_watts": None,
        "power_limit_watts": 5,
    }

    nested = {"Card Series": [[]], "GPU use (%)": True, "VRAM Total Memory (B)": {"a": 1}}
    (card,) = smi.read(NODE, rocm({"card0": nested}))
    assert (card.name, card.utilization, card.memory_total) == ("", None, None)


@given(st.binary(max_size=200))
def test_smi_random_output_is_read_or_refused(output: bytes) -> None:
    for program in (b"nvidia-smi\n", b"rocm-smi\n", b""):
        try:
            gpus = smi.read(NODE, program + output)
        except ValueError:
            continue
        assert all(gpu.name.isprintable() for gpu in gpus)


@pytest.mark.parametrize(
    ("code", "output", "errors", "expected"),
    [
        (127, b"", b"", "nvidia-smi and rocm-smi not found in the image"),
        (
            9,
            b"nvidia-smi\nNVIDIA-SMI has failed because\nx",
            b"",
            "nvidia-smi failed with exit code 9: NVIDIA-SMI has failed because",
        ),
        (2, b"rocm-smi\n", b"\n\x1b[2Jboom\r\n", "rocm-smi failed with exit code 2: boom"),
        (1, b"\x1b[31mfake", b"", "the program failed with exit code 1"),
        (3, b"nvidia-smi\n" + b"x" * 999, b"", f"nvidia-smi failed with exit code 3: {'x' * 200}"),
    ],
)
def test_smi_failure_quotes_first_line(
    code: int, output: bytes, errors: bytes, expected: str
) -> None:
    assert smi.failure(code, output, errors) == expected
