# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in the parser's own terms. ``http_errors`` maps these to status codes.

Messages are for the client: they name the field, the bad value and what was expected. They cross a process boundary,
so each class takes its message as the only argument.
"""

from __future__ import annotations


class ParserError(Exception):
    """Base class; the message may be shown to the client."""


class InvalidRequest(ParserError):
    """A field has a value that it may not have."""


class InvalidDocument(ParserError):
    """``file`` cannot be read as what it is said to be."""


class DocumentTooLarge(ParserError):
    """``file`` exceeds one of the operator's limits."""


class Unauthorized(ParserError):
    """No key was sent, or one that is not known."""


class Busy(ParserError):
    """As many requests as the operator allows are waiting."""


class NotReady(ParserError):
    """No worker has its models loaded yet, or they cannot be loaded."""


class VlmUnavailable(ParserError):
    """The VLM server cannot be reached or answers nothing useful."""


class StorageFull(ParserError):
    """The document or its result could not be written to disk."""


class PageTimeout(ParserError):
    """A page took longer than the operator allows."""


class RequestTimeout(ParserError):
    """All pages together took longer than the operator allows."""


class WorkerLost(ParserError):
    """The worker process that had the page ended, and so did the one after it."""


class Abandoned(ParserError):
    """The page was given up because nobody waited for it; no client sees this."""


class InternalError(ParserError):
    """A fault of ours; details are in the log only."""
