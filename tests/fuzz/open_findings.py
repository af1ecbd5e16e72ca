# SPDX-License-Identifier: Apache-2.0
"""What campaigns have found and nobody has mended yet: each with a small input, and what is known about it.

The campaigns go past these. The list is to be empty; a test warns of an entry that does not fail any more.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Open:
    """`signature` is what the finding's begins with; `data` is an input that shows it, empty where it is long."""

    family: str
    signature: str
    data: bytes
    what: str


OPEN = (
    Open(
        "options",
        "Broken in tests/fuzz/targets/options.py:check_body n of a request to the VLM is bounded",
        b'\0{"n":10.0}',
        "the VLM's middleware bounds whole numbers only",
    ),
    Open(
        "options",
        "Broken in tests/fuzz/targets/options.py:parse what goes to the VLM as a number",
        b"",
        "temperature and repetitionPenalty may be infinite",
    ),
    Open(
        "formulas",
        "Broken in tests/fuzz/targets/formulas.py:convert MathML is XML",
        b"\0\xfa\1\3\4\5\6",
        "control characters and halves of surrogate pairs go into MathML",
    ),
    Open(
        "formulas",
        "TooSlow in parser/docparser/convert/mathematics.py:take_out",
        b"",
        "an opening sign without a closing one makes the search quadratic",
    ),
    Open(
        "markdown",
        "UnicodeEncodeError in parser/docparser/convert",
        b"\6\6\7\x0b\x0c\r\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f&'()*+234u67",
        "a half of a surrogate pair in Markdown, or in a file's name",
    ),
    Open(
        "markdown",
        "TooSlow in parser/docparser/convert/mathematics.py:take_out",
        b"",
        "as for formulas",
    ),
)


# Answers to bad requests that must not be, and are: words of the answer, or of its exception in the log.
OPEN_ANSWERS = (
    "UnicodeEncodeError: 'utf-8' codec can't encode",  # halves of surrogate pairs in what is echoed
    "OSError: [Errno 36] File name too long",  # GET /ui/ with a long name
    "The parser failed on this page",  # a DOCX of a client's text with control characters (/restructure-pages)
    "The parser cannot pass this request on",  # JSON nested almost as deep as Python's reader goes
    "TimeoutError",  # a refusal before the body was read leaves the client sending
)


def answer_is_known(words: str) -> bool:
    return any(known in words for known in OPEN_ANSWERS)


def covers(family: str, signature: str) -> bool:
    """Whether a finding is on the list."""
    return any(one.family == family and signature.startswith(one.signature) for one in OPEN)
