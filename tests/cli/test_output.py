"""Machine-readable output formats."""

import json
from enum import StrEnum

import yaml

from kubectl_sky.cli import output


class Color(StrEnum):
    RED = "red"


VALUE = {"state": Color.RED, "nodes": [{"exit_code": None, "text": "é\n"}], "on": True}


def test_output_yaml_equals_json() -> None:
    assert yaml.safe_load(output.data(VALUE, "yaml")) == json.loads(output.data(VALUE, "json"))
