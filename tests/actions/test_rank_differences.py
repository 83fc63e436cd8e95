"""`logs --diff-ranks`: only lines that are not the same on all ranks."""

import pytest

from kubectl_sky.observe.logs import Lines, Origin, differing
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster


def lines(*texts: str, task: str = "t") -> Lines:
    """Return lines such as `1 loss`, which begin with their rank."""
    return [
        (Origin(task, int(text[0]), f"node-{text[0]}", f"{task}-{text[0]}"), text[2:].encode())
        for text in texts
    ]


@pytest.mark.parametrize(
    ("texts", "different"),
    [
        (("0 a", "1 a", "1 b", "0 b"), ()),
        (("0 a", "1 a", "0 b", "1 c"), ("0 b", "1 c")),
        (("0 a", "0 a", "1 a"), ("0 a",)),
        (("0 a", "0 b"), ()),
        (("0 a", "1 a", "2 b"), ("0 a", "1 a", "2 b")),
    ],
)
def test_differing_lines_are_those_that_a_rank_lacks(
    texts: tuple[str, ...], different: tuple[str, ...]
) -> None:
    assert differing(lines(*texts), stamped=False) == lines(*different)


def test_differing_ignores_timestamps_and_other_tasks() -> None:
    stamped = lines("0 12:00 a", "1 12:01 a", "1 12:02 b")
    other = lines("0 12:03 b", task="other")
    assert differing([*stamped, *other], stamped=True) == lines("1 12:02 b")


def test_logs_diff_ranks_prints_them_with_their_node(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nnum_nodes: 2\nrun: echo\n")
    for rank, text in enumerate((b"begin\nloss 1\n", b"begin\nloss nan\n")):
        api.log(api.start(f"train-{ID}-node-{rank}"), text)
        api.finish(f"train-{ID}-node-{rank}", rank)
    code, out, _ = run("logs", ID, "--diff-ranks")
    assert (code, sorted(out.splitlines())) == (4, ["node-0 | loss 1", "node-1 | loss nan"])
    assert run("logs", ID, "--diff-ranks", "-f")[0] == 2


def test_logs_diff_ranks_of_equal_ranks_says_so(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nnum_nodes: 2\nrun: echo\n")
    for rank in (0, 1):
        api.log(api.start(f"train-{ID}-node-{rank}"), b"begin\n")
        api.finish(f"train-{ID}-node-{rank}")
    assert run("logs", ID, "--diff-ranks") == (0, "", "all ranks have the same lines\n")
    assert run("logs", ID, "--diff-ranks", "--rank", "1") == (0, "", "only one rank\n")
