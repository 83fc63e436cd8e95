"""Protobuf bodies are decoded with the fields of the real kinds."""

import pytest

from kubectl_sky_practice import protobuf


def field(number: int, value: bytes) -> bytes:
    """Encode a field of fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


def body(raw: bytes) -> bytes:
    """Wrap a message in its envelope."""
    about = field(1, b"v1") + field(2, b"ConfigMap")
    return b"k8s\0" + field(1, about) + field(2, raw)


def test_protobuf_decode_maps_times_and_bytes() -> None:
    meta = field(1, b"a") + field(11, field(1, b"key") + field(2, b"value")) + field(8, b"")
    raw = field(1, meta) + field(2, field(1, b"x") + field(2, b"y"))
    raw += field(3, field(1, b"z") + field(2, b"\xff"))
    assert protobuf.decode(body(raw), "", "v1", "ConfigMap") == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"key": "value"}},
        "data": {"x": "y"},
        "binaryData": {"z": "/w=="},
    }


@pytest.mark.parametrize(
    "wrong", [b"", b"{}", b"k8s\0\x0a", b"k8s\0\xff\xff", body(b"\x0a\x7f"), body(b"\x0d1234")]
)
def test_protobuf_decode_malformed_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="not a protobuf message"):
        protobuf.decode(wrong, "", "v1", "ConfigMap")
