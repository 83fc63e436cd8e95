"""Make a tiny language model and a tokenizer of words: `python model.py FOLDER`."""

import sys

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

folder = sys.argv[1]
words = {word: index for index, word in enumerate(["<unk>", "<pad>", "train", "wikitext"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="<pad>"
)
fast.save_pretrained(folder)
config = GPT2Config(
    vocab_size=len(words),
    n_positions=64,
    n_embd=32,
    n_layer=2,
    n_head=2,
    bos_token_id=1,
    eos_token_id=1,
)
GPT2LMHeadModel(config).save_pretrained(folder)
