# SPDX-License-Identifier: Apache-2.0
"""The text that training pages are filled with."""

import itertools
import random

import pytest

from demo_training.drawing.words import COMMON, TextSource, words


def test_no_dictionary_word_is_in_both_splits():
    assert not set(words("train")) & set(words("heldout"))


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="'test'.*'train', 'heldout'"):
        words("test")


def test_held_out_text_has_only_function_words_in_common_with_training():
    source = TextSource("heldout", random.Random(1), strange=0.0)
    seen = {source.word().lower() for _ in range(2000)}
    assert seen & {word.lower() for word in words("heldout")}
    assert (
        not (seen & {word.lower() for word in words("train")})
        - {word.lower() for word in COMMON}
        - {word.lower() for word in words("heldout")}
    )


def stream(echo: float, count: int = 600) -> list[str]:
    return list(itertools.islice(TextSource("train", random.Random(3)).stream(echo), count))


def test_a_stream_without_echo_is_its_sentences():
    source = TextSource("train", random.Random(3))
    assert stream(0.0) == " ".join(source.sentence() for _ in range(300)).split(" ")[:600]


def test_an_echo_says_recent_words_again():
    def again(said: list[str]) -> int:
        return sum(word in said[max(0, at - 13) : at] for at, word in enumerate(said))

    echo = 0.3
    assert again(stream(echo)) - again(stream(0.0)) > 0.5 * echo * 600 / (1 + echo)


def test_phrases_come_again_word_for_word():
    def repeated(phrases: float) -> int:
        said = list(itertools.islice(TextSource("train", random.Random(3)).stream(phrases=phrases), 600))
        triples = list(zip(said, said[1:], said[2:]))
        return len(triples) - len(set(triples))

    assert repeated(0.0) < 5 and repeated(0.04) > 15
