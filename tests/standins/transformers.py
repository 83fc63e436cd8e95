"""Stands in for transformers: its Trainer trains nothing, but writes and reads checkpoints.

A training that does not begin at a checkpoint crashes once, in step 130.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

CRASH_STEP = 130
sys.modules["transformers.trainer_utils"] = sys.modules[__name__]


class _Pretrained:
    @classmethod
    def from_pretrained(cls, name: str) -> Self:
        assert name
        return cls()

    def __call__(self, text: str, **_: object) -> dict[str, Any]:
        return {"input_ids": list(text.encode())}


class AutoModelForCausalLM(_Pretrained):
    """A model without weights."""


class AutoTokenizer(_Pretrained):
    """Bytes are tokens."""


class TrainingArguments(SimpleNamespace):
    """The arguments, as attributes."""


def DataCollatorForLanguageModeling(tokenizer: AutoTokenizer, *, mlm: bool) -> object:  # noqa: N802
    assert isinstance(tokenizer, AutoTokenizer) and not mlm
    return object()


def get_last_checkpoint(folder: str) -> str | None:
    steps = [int(path.name.removeprefix("checkpoint-")) for path in Path(folder).glob("check*-*")]
    return f"{folder}/checkpoint-{max(steps)}" if steps else None


class Trainer:
    """Counts steps."""

    def __init__(self, *, args: TrainingArguments, train_dataset: list[Any], **_: object) -> None:
        assert all(row["input_ids"] for row in train_dataset)
        self.args = args
        self.state = SimpleNamespace(global_step=0)

    def train(self, resume_from_checkpoint: str | None) -> None:
        first = int(resume_from_checkpoint.rpartition("-")[2]) if resume_from_checkpoint else 0
        for step in range(first + 1, self.args.max_steps + 1):
            if step == CRASH_STEP and not resume_from_checkpoint:
                sys.stdout.write(f"CUDA error in step {step}\n")
                sys.stdout.flush()
                os._exit(1)
            if step % self.args.save_steps == 0:
                Path(self.args.output_dir, f"checkpoint-{step}").mkdir()
            self.state.global_step = step

    def save_model(self, folder: str) -> None:
        Path(folder).mkdir()
