"""The practice cluster decodes protobuf bodies with the fields of the real kinds."""

import gzip
import json

import pytest

from tests.contract import protobuf_messages


@pytest.mark.cluster
def test_protobuf_messages_equal_kubernetes_modules() -> None:
    kept = json.loads(gzip.decompress(protobuf_messages.FILE.read_bytes()))
    again = "regenerate with `python -m tests.contract.protobuf_messages`"
    assert kept == protobuf_messages.extract(), again
