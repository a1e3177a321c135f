"""The two special tokens, known without loading a tokenizer."""

START, END = "<s>", "</s>"
START_ID, END_ID = 0, 1
