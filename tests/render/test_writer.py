"""Every value that a user can write comes back as itself."""

import random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from kubectl_sky.render.engine import engine

TEMPLATE = """
a:
  b:
    - c: {{ v }}
      {{ k }}: {{ d }}
    - {{ v }}
  s: {{ v | block(4) }}
  e: 1
"""
SPECIAL = [
    "", "yes", "null", "~", "1e3", "007", "0x1F", "1:30", "=", "<<",
    "2024-01-01", "-", "---", "...", "evil\nkind: Secret", "{{ x }}",
    "<b>&amp;", "%TAG", "a\n\n\n", "\n", " \n  x\n", "\tx\ny", "x\r\ny",
    "x\n ", "x\n\n y", "# no\n# comment\n", "😀\né", "a\x85b\nc", "a\u2028b\nc",
    "'\n\"", "|\n>", "x: y\nz",
]  # fmt: skip
ALPHABET = "ab01 :#-{}[],&*!|>'\"%@`\\\n\t\r\x07\x7f\x85\u00a0\u2028\ufeff😀é~"


def round_trip(text: str, extra: object) -> None:
    template = engine().from_string(TEMPLATE)
    rendered = template.render(v=text, k="key", d={"s": text, "x": extra})
    assert yaml.safe_load(rendered) == {
        "a": {"b": [{"c": text, "key": {"s": text, "x": extra}}, text], "s": text, "e": 1}
    }


@pytest.mark.parametrize("text", SPECIAL)
def test_special_strings(text: str) -> None:
    round_trip(text, True)


def test_twenty_thousand_hostile_strings() -> None:
    source = random.Random(1)
    template = engine().from_string(TEMPLATE)
    for _ in range(20_000):
        text = "".join(source.choices(ALPHABET, k=source.randint(0, 12)))
        value = yaml.load(template.render(v=text, k="key", d={"s": text}), Loader=yaml.CSafeLoader)
        assert value["a"]["b"][0] == {"c": text, "key": {"s": text}}
        assert value["a"]["s"] == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
@settings(max_examples=300, deadline=None)
def test_any_text(text: str) -> None:
    round_trip(text, None)


@given(st.text("ab \t#|>-:\n", max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_script(text: str) -> None:
    rendered = engine().from_string("s:\n  k: {{ v | block(4) }}\n  e: 1\n").render(v=text)
    assert yaml.safe_load(rendered) == {"s": {"k": text, "e": 1}}


def test_scripts_are_blocks_that_people_can_read() -> None:
    rendered = (
        engine().from_string("run.sh: {{ v | block(2) }}\n").render(v="for x in a; do\n  y\ndone\n")
    )
    assert rendered == "run.sh: |2\n  for x in a; do\n    y\n  done"


def test_undefined_values_fail() -> None:
    with pytest.raises(UndefinedError, match="nothing"):
        engine().from_string("{{ nothing }}").render()
