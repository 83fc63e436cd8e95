"""What is read of an object like the one before it is what the loader would have read."""

import itertools
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.render import alike, writer

TEXTS = st.sampled_from(
    ["a", "node-1", "node-2", "", "1", "~", "x: y", "a\nb", "😀", '"', "#", "é"]
)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=8,
)
JOB = """\
kind: Job  # of a node
metadata:
  name: "train-{}"
  labels: {{a: "b", "node": "{}"}}
spec:
  - "run {}"
  - - "run {}"
"""


def loaded(text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return yaml.YAMLError


def read(reader: alike.Reader, text: str) -> object:
    try:
        return reader.read(text)
    except yaml.YAMLError:
        return yaml.YAMLError


def test_strings_are_put_in_without_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [JOB.replace(', "node": "{}"', "").format(*[f"n{node}"] * 3) for node in range(3)]
    values = [loaded(text) for text in texts]
    reader = alike.Reader()
    assert reader.read(texts[0]) == values[0]
    monkeypatch.setattr(yaml, "load", None)
    found = [reader.read(text) for text in texts]
    assert found == values
    found[0]["spec"].clear()
    assert reader.read(texts[0]) == values[0], "what was given away is nobody else's"


@given(st.lists(VALUES, min_size=2, max_size=3))
def test_whatever_is_written_is_read(values: list[object]) -> None:
    reader = alike.Reader()
    assert [reader.read(writer.document(value)) for value in values] == values


@given(st.lists(st.tuples(*[TEXTS] * 4), min_size=2, max_size=4))
def test_values_of_a_template_are_read(rows: list[tuple[str, ...]]) -> None:
    reader = alike.Reader()
    for row in rows:
        text = re.sub('"[^"]*{}"', "{}", JOB).format(*map(writer.write, row))
        assert reader.read(text) == loaded(text)


HARD = {
    "an alias": 'a: &x "one"\nb: *x\n',
    "a merge": 'a: &x\n  k: "one"\nb:\n  <<: *x\n',
    "a key twice": 'k: "one"\nk: "two"\n',
    "a block": 'k: |\n  "one"\nl: "one"\n',
    "over two lines": 'k: "one\n  "\nl: "one"\n',
    "in single quotes": "k: 'a\n  \"one\"\n  '\n",
    "a key": '"one"\n: "one"\n',
    "a question": '? "one"\n: "one"\n',
    "a tag": 'k: !!int "1"\nl: !!str "one"\n',
    "a list in a line": 'k: ["two", "one"]\nl: [\n"one"\n]\n',
    "a comment": 'k: "two" # "one"\n',
    "a foreign line break": 'k: "two"\x85l: "one"\nm: "one"\n',
    "a string alone": '"one"\n',
    "nothing": "\n",
    "two documents": '--- "one"\n--- "one"\n',
    "no YAML": 'k: "one"\n "one"\n',
    "wide characters": '"😀é": "one"\n',
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_what_may_mean_more_is_left_to_the_loader(text: str) -> None:
    for words in itertools.permutations(("one", "1", "<<", "k", "a: b"), 2):
        reader = alike.Reader()
        for word in words:
            changed = text.replace("one", word)
            assert read(reader, changed) == loaded(changed), changed
