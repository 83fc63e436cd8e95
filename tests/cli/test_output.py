"""The forms in which commands print values for programs."""

import json
from enum import StrEnum

import yaml

from kubectl_sky.cli import output


class Color(StrEnum):
    RED = "red"


VALUE = {"state": Color.RED, "nodes": [{"exit_code": None, "text": "é\n"}], "on": True}


def test_yaml_of_enums_is_the_same_as_json() -> None:
    assert yaml.safe_load(output.data(VALUE, "yaml")) == json.loads(output.data(VALUE, "json"))
