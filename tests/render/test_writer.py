"""Every value is read back unchanged."""

import json
import random
import re
import shutil
import subprocess

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from kubectl_sky.render import writer
from kubectl_sky.render.manifests import engine

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
LIKE_NUMBERS = "0123456789_eExXoObB.:+-TZ ,infNaNGim"
ALPHABET = "ab01 :#-{}[],&*!|>'\"%@`\\\n\t\r\x07\x7f\x85\u00a0\u2028\ufeff😀é~"


def round_trip(text: str, extra: object) -> None:
    template = engine().from_string(TEMPLATE)
    rendered = template.render(v=text, k="key", d={"s": text, "x": extra})
    assert yaml.safe_load(rendered) == {
        "a": {"b": [{"c": text, "key": {"s": text, "x": extra}}, text], "s": text, "e": 1}
    }


@pytest.mark.parametrize("text", SPECIAL)
def test_writer_special_string_is_read_back_equal(text: str) -> None:
    round_trip(text, True)


def hostile(count: int) -> list[str]:
    """Strings of special characters, and strings that look like numbers, dates and words."""
    source = random.Random(1)
    alphabets = (ALPHABET, LIKE_NUMBERS, "nulfasetryoNY~.-")
    lengths = (source.randint(0, 12) for _ in range(count))
    return ["".join(source.choices(source.choice(alphabets), k=length)) for length in lengths]


def test_writer_20000_hostile_strings_are_read_back_by_pyyaml() -> None:
    template = engine().from_string(TEMPLATE)
    for text in hostile(20_000):
        value = yaml.load(template.render(v=text, k=text, d={"s": text}), Loader=yaml.CSafeLoader)
        expected = {"c": text, text: {"s": text}} if text != "c" else {"c": {"s": text}}
        assert value["a"]["b"] == [expected, text]
        assert value["a"]["s"] == text
        assert yaml.load(writer.document([text, {text: text}]), Loader=yaml.CSafeLoader) == [
            text,
            {text: text},
        ]


def test_writer_20000_hostile_strings_are_read_back_by_kubectl() -> None:
    kubectl = shutil.which("kubectl")
    if not kubectl:
        pytest.skip("kubectl is not installed")
    texts = sorted({*hostile(20_000), *SPECIAL})
    row = engine().from_string("- a: {{ v }}\n  {{ v }}: {{ d }}\n  k: {{ v | block(4) }}\n")
    rows = [f"{row.render(v=text, d={'s': [text], text: text})}\n" for text in texts]
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n"
    command = [kubectl, "annotate", "--local", "-f", "-", "-o", "json", "a=b"]
    items = writer.document([[text, {text: text}] for text in texts])
    text = f"{head}{''.join(rows)}---\n{head}{items}"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr

    decoder = json.JSONDecoder()
    first, end = decoder.raw_decode(done.stdout)
    second, _ = decoder.raw_decode(done.stdout[end:].lstrip())
    for text, found, written in zip(texts, first["data"], second["data"], strict=True):
        expected = {"a": text, text: {"s": [text], text: text}, "k": text}
        assert found == expected
        assert written == [text, {text: text}]


# The core schema of YAML 1.2 (section 10.3.2), and the types of YAML 1.1 (yaml.org/type).
OTHER_TYPES = re.compile(
    r"""
    ~ | null | Null | NULL | y | Y | yes | Yes | YES | n | N | no | No | NO | on | On | ON
    | off | Off | OFF | true | True | TRUE | false | False | FALSE | = | << | [-+]?[0-9][0-9_,]*
    | 0o[0-7]+ | [-+]?0b[01_]+ | [-+]?0x[0-9a-fA-F_]+ | [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?
    | [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
    | [-+]?([0-9][0-9_]*)?\.[0-9.]*([eE][-+][0-9]+)?
    | [-+]?\.(inf|Inf|INF) | \.(nan|NaN|NAN)
    | [0-9]{4}-[0-9][0-9]?-[0-9][0-9]?([Tt]|[ \t]+)?[0-9:.]*[ \t]*(Z|[-+][0-9:]+)?
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("alphabet", [LIKE_NUMBERS, "0123456789", "nulfasetryoNYTFEOL~", ".-+e0"])
def test_writer_ambiguous_plain_scalar_is_quoted(alphabet: str) -> None:
    source = random.Random(alphabet)
    for _ in range(20_000):
        text = "".join(source.choices(alphabet, k=source.randint(0, 6)))
        if OTHER_TYPES.fullmatch(text):
            assert writer.write(text)[0] in "\"'", text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("hello", "hello"),
        ("python:3.13-slim", "python:3.13-slim"),
        ("8Gi", "8Gi"),
        ("500m", "500m"),
        ("/etc/kubectl-sky", "/etc/kubectl-sky"),
        ("~/data", "~/data"),
        (".dockerconfigjson", ".dockerconfigjson"),
        ("$(SKYPILOT_NODE_RANK)", "$(SKYPILOT_NODE_RANK)"),
        ("kubectl-sky/name", "kubectl-sky/name"),
        ("metadata.labels['x/y']", "\"metadata.labels['x/y']\""),
        ("it's two words", "it's two words"),
        ("alice@example.com", "alice@example.com"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("true", '"true"'),
        ("yes", '"yes"'),
        ("Y", '"Y"'),
        ("0", '"0"'),
        ("1e3", '"1e3"'),
        ("0x1F", '"0x1F"'),
        ("12:30", '"12:30"'),
        ("3.11", '"3.11"'),
        ("2024-01-01", '"2024-01-01"'),
        ("", '""'),
        ("- a", '"- a"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("a:", '"a:"'),
        (" a", '" a"'),
        ("a, b", '"a, b"'),
        ('{"a": 1}', "'{\"a\": 1}'"),
        ("a\nb", '"a\\nb"'),
    ],
)
def test_writer_string_is_quoted_only_if_needed(text: str, written: str) -> None:
    assert writer.write(text) == written


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
@settings(max_examples=300, deadline=None)
def test_writer_random_text_is_read_back_equal(text: str) -> None:
    round_trip(text, None)


@given(st.text("ab \t#|>-:\n", max_size=40))
@settings(max_examples=500, deadline=None)
def test_writer_random_script_is_read_back_equal(text: str) -> None:
    rendered = engine().from_string("s:\n  k: {{ v | block(4) }}\n  e: 1\n").render(v=text)
    assert yaml.safe_load(rendered) == {"s": {"k": text, "e": 1}}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("for x in a; do\n  y\ndone\n", "|\n  for x in a; do\n    y\n  done"),
        ("# a comment\n\nx", "|-\n  # a comment\n\n  x"),
        ("  indented\nx\n", "|2\n    indented\n  x"),
        ("\nx\n", "|2\n\n  x"),
        ("\tx\ny\n", "|2\n  \tx\n  y"),
        ("x\n\n", "|+\n  x\n"),
        ("x\r\ny\n", '"x\\r\\ny\\n"'),
        ("python train.py", "python train.py"),
    ],
)
def test_writer_script_is_literal_block(text: str, written: str) -> None:
    rendered = engine().from_string("run.sh: {{ v | block(2) }}\n").render(v=text)
    assert rendered == f"run.sh: {written}"
    assert yaml.safe_load(f"{rendered}\n") == {"run.sh": text}


def test_writer_fields_of_map_are_indented() -> None:
    rendered = engine().from_string("a:\n  {{ v | fields(2) }}\nb: 1\n").render
    assert rendered(v={"x/y": "true", "z": "1Gi"}) == 'a:\n  x/y: "true"\n  z: 1Gi\nb: 1'
    assert rendered(v={}) == "a:\n  {}\nb: 1"
    hostile = {text: text for text in SPECIAL}
    assert yaml.safe_load(rendered(v=hostile)) == {"a": hostile, "b": 1}


def test_writer_nested_macro_is_indented_or_empty() -> None:
    macro = "{% macro m(v) %}{% if v %}\nx:\n  y: {{ v }}\n{% endif %}{% endmacro %}"
    template = engine().from_string(macro + "a:\n{{ m(v) | nest(2) -}}\n{{ m(v) | nest(0) -}}\n")
    assert template.render(v="1") == 'a:\n  x:\n    y: "1"\nx:\n  y: "1"\n'
    assert template.render(v="") == "a:\n"


def test_writer_nested_string_is_quoted() -> None:
    assert engine().from_string("a: {{ v | nest(2) }}").render(v="b: c") == 'a: "b: c"'


def test_writer_undefined_value_raises() -> None:
    with pytest.raises(UndefinedError, match="nothing"):
        engine().from_string("{{ nothing }}").render()
