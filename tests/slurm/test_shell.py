"""Commands in shell scripts."""

import pytest

from kubectl_sky.slurm.shell import commands


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a; b && c | d", ["a", "b", "c", "d"]),
        ("X=1 srun -n 2 a &\nwait", ["srun", "wait"]),
        ("if a; then\n  b\nfi", ["a", "b"]),
        ("for i in 1 2; do\n  srun a $i &\ndone", ["srun"]),
        ("a=$(srun b | head)", ["", "srun", "head"]),
        ('echo "$(srun a)" `b`', ["echo", "srun", "b"]),
        ("nodes=($(scontrol show hostnames x))", ["", "scontrol"]),
        ("# srun a\necho 'srun b' \"srun c\"", ["echo"]),
        ("cat << END\nsrun a\nEND\nb", ["cat", "b"]),
        ("srun \\\n  -n 2 \\\n  a", ["srun"]),
        ("a 2>&1 | tee x", ["a", "tee"]),
        ("time srun a", ["srun"]),
    ],
)
def test_commands_of_a_script_are_found(text: str, names: list[str]) -> None:
    assert [command.name for command in commands(text)] == names


def test_command_in_a_block_or_substitution_has_a_depth() -> None:
    found = commands("a\nif b; then c; fi\nx=$(d)\n{ e; }\nf")
    depths = {command.name: command.depth for command in found}
    assert depths == {"a": 0, "b": 1, "c": 1, "": 0, "d": 1, "e": 1, "f": 0}


@pytest.mark.parametrize(
    "part", ["$(", '"$(', "x=(", "`", "{ ", "cat << A\n", "a <(", "if a; then "]
)
def test_script_that_is_deeply_nested_is_read(part: str) -> None:
    assert isinstance(commands(part * 5000), list)


@pytest.mark.parametrize("text", ["'", '"', "$(", "`", "${", "a << E", "(((", "\\", ")", "x=("])
def test_script_with_unclosed_parts_is_read(text: str) -> None:
    assert isinstance(commands(text), list)
