"""Valid and hostile request bodies."""

import pytest

from kubectl_sky.practice.access import User
from kubectl_sky.practice.problems import Problem
from kubectl_sky.practice.requests import Request

BOMB = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


def decode(body: bytes, content_type: str) -> object:
    headers = {"content-type": content_type}
    return Request(User("me", ()), "POST", headers=headers, body=body).decode("", "v1", "ConfigMap")


def test_decode_json_and_yaml_returns_object() -> None:
    assert decode(b'{"a": [1]}', "application/json; charset=utf-8") == {"a": [1]}
    assert decode(b"a:\n- 1\n", "application/yaml") == {"a": [1]}


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"k8s\0\x0a", "application/vnd.kubernetes.protobuf", 400),
        (b"{}", "text/plain", 415),
        (BOMB, "application/yaml", 400),
        (b"[" * 100_000, "application/yaml", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b'{"a": "\xff"}', "application/json", 400),
        (b"[1]", "application/json", 400),
    ],
)
def test_decode_hostile_body_is_refused(body: bytes, content_type: str, code: int) -> None:
    with pytest.raises(Problem) as error:
        decode(body, content_type)
    assert error.value.code == code
