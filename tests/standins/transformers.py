"""Stands in for transformers: its Trainer trains nothing, but writes and reads checkpoints.

A training that does not begin at a checkpoint crashes once, in step 130. With FSDP, as in
transformers 4.57.1, models are loaded after TrainingArguments and saved whole or not at all.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import flags  # type: ignore[import-not-found]  # it is beside this file in the pod

CRASH_STEP = 130
FSDP = os.environ.get("ACCELERATE_USE_FSDP") == "true"
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

    @classmethod
    def from_pretrained(cls, name: str) -> Self:
        assert TrainingArguments.exist or not FSDP, "each process would load all weights"
        return super().from_pretrained(name)


class AutoTokenizer(_Pretrained):
    """Bytes are tokens."""


class TrainingArguments(SimpleNamespace):
    """The arguments, as attributes."""

    exist = False

    def __init__(self, **arguments: object) -> None:
        assert arguments.keys() <= flags.TRAINING_ARGUMENTS
        TrainingArguments.exist = True
        super().__init__(**arguments)


def DataCollatorForLanguageModeling(tokenizer: AutoTokenizer, *, mlm: bool) -> object:  # noqa: N802
    assert isinstance(tokenizer, AutoTokenizer) and not mlm
    return object()


def get_last_checkpoint(folder: str) -> str | None:
    steps = [int(path.name.removeprefix("checkpoint-")) for path in Path(folder).glob("check*-*")]
    return f"{folder}/checkpoint-{max(steps)}" if steps else None


class FsdpPlugin:
    """How the weights of a sharded model are saved."""

    state_dict_type = "SHARDED_STATE_DICT"

    def set_state_dict_type(self, state_dict_type: str) -> None:
        self.state_dict_type = state_dict_type


class Trainer:
    """Counts steps."""

    def __init__(
        self,
        *,
        model: AutoModelForCausalLM,
        args: TrainingArguments,
        data_collator: object,
        train_dataset: list[Any],
    ) -> None:
        assert isinstance(model, AutoModelForCausalLM) and data_collator
        self.is_fsdp_enabled = FSDP
        self.accelerator = SimpleNamespace(state=SimpleNamespace(fsdp_plugin=FsdpPlugin()))
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
                checkpoint = Path(self.args.output_dir, f"checkpoint-{step}")
                checkpoint.mkdir()
                checkpoint.joinpath("model.safetensors").touch()
                checkpoint.joinpath("trainer_state.json").touch()
            self.state.global_step = step

    def save_model(self, folder: str) -> None:
        plugin = self.accelerator.state.fsdp_plugin
        if not FSDP or plugin.state_dict_type == "FULL_STATE_DICT":
            Path(folder).mkdir()
