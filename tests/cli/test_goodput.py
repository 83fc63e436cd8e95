"""The text of `status --goodput`."""

from datetime import datetime

from kubectl_sky.cli.goodput import format_goodput
from kubectl_sky.observe.goodput import Goodput, TaskGoodput
from tests.builders import CREATED


def test_goodput_of_a_task_of_under_a_second_is_a_sentence_without_a_table() -> None:
    task = TaskGoodput("abcd2345", "hello", "COMPLETED", 0.4, shares=(), nodes=())

    text = format_goodput(Goodput(now=datetime.fromisoformat(CREATED), tasks=[task]))

    assert text == "hello (abcd2345) COMPLETED: too short to measure: 0s"
