"""Lines with #SBATCH: which are read, in which spellings, and what is refused."""

import pytest

from kubectl_sky.slurm.directives import is_script, read_header
from tests.slurm.scripts import FILE, errors, make_data, make_script, read, warnings


@pytest.mark.parametrize(
    "option",
    ["--nodes=3", "--nodes 3", "-N 3", "-N3", "-N=3", "-N 3   # comment", '--nodes="3"'],
)
def test_directive_in_each_spelling_is_read(option: str) -> None:
    assert make_data(option)["num_nodes"] == 3


def test_directive_that_is_shortened_is_read_if_it_is_clear() -> None:
    assert make_data("--ntasks-per-n=3")["resources"] == {"cpus": 3}
    (problem,) = errors(make_script("--node=3"))
    assert problem.message == "unknown option of sbatch"


def test_directives_of_one_line_are_all_read() -> None:
    header = read_header(["#!/bin/bash", "#SBATCH -N2 --time 10 # a comment --mem=1"], FILE)
    assert [(item.name, item.value, item.column) for item in header.directives] == [
        ("nodes", "2", 11),
        ("time", "10", 20),
    ]


def test_comment_sign_in_quotes_is_text() -> None:
    header = read_header(["#!/bin/bash", '#SBATCH --comment="a # b" -N2 # "c'], FILE)
    assert [item.value for item in header.directives] == ["a # b", "2"]
    assert header.problems == ()


def test_directive_that_is_given_twice_has_its_last_value() -> None:
    assert make_data("--nodes=2", "--nodes=4")["num_nodes"] == 4


@pytest.mark.parametrize("line", ["##SBATCH --nodes=2", "# SBATCH --nodes=2", "#SBATCHX --nodes=2"])
def test_directive_that_is_a_comment_is_not_read(line: str) -> None:
    script = f"#!/bin/bash\n{line}\n#SBATCH --time=5\necho\n"
    assert "num_nodes" not in read(script).data


def test_directive_after_the_first_command_is_named() -> None:
    document = read("#!/bin/bash\n#SBATCH -t 5\necho\n#SBATCH --nodes=2\n")
    assert "num_nodes" not in document.data
    assert [(problem.line, problem.message) for problem in document.warnings] == [
        (4, "ignored, as by sbatch: it stands after the first command")
    ]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (
            "--mem=16 GB",
            "train.sbatch:2:18: GB: expected an option;"
            " write the value before it as one word, or in quotes",
        ),
        ("--nodez=2", 'train.sbatch:2:9: --nodez: unknown option of sbatch; did you mean "nodes"?'),
        ("--nodes=two", 'train.sbatch:2:17: --nodes: expected a number such as 4, got "two"'),
        ("--time", "train.sbatch:2:9: --time: expected a value"),
        ("--time=1:2:3:4", "--time: expected a time such as 90"),
        ("--mem=lots", "--mem: expected a size such as 64G"),
        ("--mem=" + "9" * 400, "--mem: expected a size such as 64G"),
        ("--time=" + "9" * 5000, "--time: expected a time such as 90"),
        (
            "--cpus-per-gpu = 4",
            "--cpus-per-gpu: expected a value; write it without spaces around =",
        ),
        ("--gres=8", "--gres: 8 is no kind of resource; such as gpu:8"),
        ("--gres=gpu:many:x", "--gres: expected GPUs such as 4 or a100:4"),
        ("--array=1-x", "--array: expected numbers such as 0-9"),
        ("--comment='a", "train.sbatch:2:19: ': the quote is not closed"),
        ('-N2 -J "a b # c', 'train.sbatch:2:16: ": the quote is not closed'),
        ("be sure to set it", "2:9: be: expected an option; such as --time=60; a comment begins"),
        ("--mem=4G --mem-per-cpu=1G", "--mem-per-cpu: --mem and --mem-per-cpu exclude each other"),
        ("hetjob", "hetjob: not supported: heterogeneous jobs"),
        ("--image=docker:x", "--image: not supported: Shifter images"),
    ],
)
def test_directive_that_is_wrong_is_an_error_with_its_line(option: str, text: str) -> None:
    (problem,) = errors(make_script(option))
    assert text in str(problem)


def test_directive_without_its_value_is_ignored_with_a_warning() -> None:
    assert warnings("--gres= --time=5") == [
        "train.sbatch:2:9: --gres: warning: ignored: no value; write one, or remove the option"
    ]


def test_problems_of_several_lines_are_all_reported() -> None:
    script = make_script("--nodes=x", "--foo", body="pdsh ls")
    assert [problem.line for problem in errors(script)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"#!/bin/bash\n#SBATCH -N 1\n", True),
        (b"#! /bin/sh\n\n#SBATCH\t-N 1\n", True),
        (b"#!/bin/bash\n##SBATCH -N 1\n", False),
        (b"name: x\nrun: |\n  #!/bin/bash\n#SBATCH -N 1\n", False),
        (b"#!/bin/bash\necho '#SBATCH'\n", False),
        (b"#!/usr/bin/env python3\nHELP = 1\n#SBATCH -N 1\n", False),
    ],
)
def test_script_is_recognized_by_its_content(text: bytes, expected: bool) -> None:
    assert is_script(text) is expected
