"""Fine-tune a language model on WikiText, from the last checkpoint in --output if it has any."""

import argparse
from pathlib import Path

from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", required=True)
parser.add_argument("--output", type=Path, required=True)
flags = parser.parse_args()
flags.output.mkdir(parents=True, exist_ok=True)

tokenizer = AutoTokenizer.from_pretrained(flags.model)
data = load_dataset("Salesforce/wikitext", "wikitext-2-raw-v1", split="train")
data = data.filter(lambda row: row["text"].strip())
data = data.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512))
arguments = TrainingArguments(
    output_dir=str(flags.output),
    max_steps=200,
    save_steps=50,
    save_total_limit=2,
    report_to="none",
)  # before the model: with FSDP, only one process of a node then loads the weights
trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained(flags.model),
    args=arguments,
    train_dataset=data,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
checkpoint = get_last_checkpoint(str(flags.output))
print(f"starting from {Path(checkpoint).name if checkpoint else flags.model}", flush=True)
trainer.train(resume_from_checkpoint=checkpoint)
if trainer.is_fsdp_enabled:  # checkpoints are sharded, the final model is not
    trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
trainer.save_model(str(flags.output / "final"))
print(f"trained {trainer.state.global_step} steps", flush=True)
