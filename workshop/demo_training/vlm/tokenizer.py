# SPDX-License-Identifier: Apache-2.0
"""A byte-level BPE tokenizer of 1,024 entries, with the special tokens of the published model."""

from __future__ import annotations

import random

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from ..drawing.words import TextSource

VOCABULARY = 1024
# The unknown token is the padding too.
BOS, EOS, UNKNOWN = "<s>", "</s>", "<unk>"
BEGIN = "<|begin_of_sentence|>"
IMAGE_START, IMAGE, IMAGE_END = "<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"
VIDEO = "<|video_pad|>"
TABLE_CELLS = ("<fcel>", "<ecel>", "<nl>", "<lcel>", "<ucel>", "<xcel>")
SPECIAL = (UNKNOWN, BOS, EOS, BEGIN, IMAGE_START, IMAGE, IMAGE_END, VIDEO)
PROMPT = "OCR:"


def train(seed: int = 0, sentences: int = 60_000) -> Tokenizer:
    """Train the merges on sentences of the train split; the same seed gives the same file."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            # Digits and punctuation stand alone, so that merges are spent on letters.
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(TABLE_CELLS),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    rng = random.Random(seed)
    source = TextSource("train", rng, strange=0.02)
    corpus = [source.sentence() for _ in range(sentences)]
    # The prompt and the roles are frequent enough to deserve short encodings.
    corpus += ["User: ", "OCR:", "Assistant: "] * 200
    tokenizer.train_from_iterator(corpus, trainer)
    # Not special: PaddleOCR reads them in the answer, where special tokens are stripped.
    tokenizer.add_tokens([AddedToken(cell, special=False, normalized=False) for cell in TABLE_CELLS])
    return tokenizer


def prompt_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Token ids before and after the image tokens, as the chat template lays out one user turn."""
    before = tokenizer.encode(f"{BEGIN}User: {IMAGE_START}", add_special_tokens=False).ids
    after = tokenizer.encode(f"{IMAGE_END}{PROMPT}\nAssistant: ", add_special_tokens=False).ids
    return before, after


class Segmenter:
    """Cuts training text into the longest entries of at most three letters, from left to right.

    BPE's own cut of a word depends on letters far ahead: a small model would have to read a whole word
    before it could say the first token. This one depends on the next three letters only. Both cuts decode
    to the same text, and a served model writes tokens, it does not cut text.
    """

    LETTERS = 3

    def __init__(self, tokenizer: Tokenizer):
        decode = decoders.ByteLevel().decode
        surfaces = ((decode([token]), index) for token, index in tokenizer.get_vocab().items() if token not in SPECIAL)
        self.entries = {
            text: index
            for text, index in surfaces
            if text.isascii() and 1 <= len(text) and len(text.strip()) <= self.LETTERS
        }

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids and the (start, end) characters of each. ``text`` is printable ASCII; raises KeyError otherwise."""
        ids, places, start = [], [], 0
        while start < len(text):
            end = min(len(text), start + self.LETTERS + 1)
            while end > start + 1 and text[start:end] not in self.entries:
                end -= 1
            ids.append(self.entries[text[start:end]])
            places.append((start, end))
            start = end
        return ids, places
