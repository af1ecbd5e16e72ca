# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, in the parser's own terms. ``http.errors`` maps these to status codes.

Messages are for the client: they name the field, the bad value and what was expected. Errors cross a process boundary,
so each class takes its message as the only argument.
"""

from __future__ import annotations

import contextlib
from collections import abc


class ParserError(Exception):
    """Base class; the message may be shown to the client. ``kind``: what an answer calls it that lists failed pages."""

    kind = "failed"


class PageFailed(ParserError):
    """Base class of what concerns one page; the other pages of its document are parsed all the same."""


class InvalidRequest(ParserError):
    """A field has a value that is not allowed."""


class BodyTooComplex(InvalidRequest):
    """A body is nested too deeply, or has too many values."""


class ModelNotFound(ParserError):
    """A chat completion asks for a model that is not served here."""


class InvalidDocument(PageFailed):
    """``file`` cannot be read, or is not of the type that the request says."""

    kind = "invalid"


class FileNotFound(ParserError):
    """There is no uploaded file of this id, or it belongs to another client, or its time is over."""


class DocumentTooLarge(PageFailed):
    """``file`` exceeds one of the operator's limits."""

    kind = "too_large"


class DocumentTooSlow(PageFailed):
    """A part of ``file`` takes more CPU time than the operator allows. It is not tried again."""

    kind = "too_slow"


class StepTooSlow(PageFailed):
    """A step of a page, after it was read, takes longer than the operator allows. It is not tried again with these
    options."""

    kind = "too_slow"


class BoundExceeded(PageFailed):
    """Work over the text of a document exceeded one of the operator's bounds on a child process."""

    kind = "too_large"


class UnreadableText(PageFailed):
    """The text of a document ended the child process that worked on it, or no library can read it."""

    kind = "invalid"


class NotReady(ParserError):
    """No worker has its models loaded yet, or the models cannot be loaded, or the configuration is wrong."""


class VlmUnavailable(ParserError):
    """The VLM server cannot be reached, or its answers are of no use."""


class SpoolFull(ParserError):
    """The document or its result cannot be written to PARSER_SPOOL_DIR."""


@contextlib.contextmanager
def disk_errors(of: str = "document") -> abc.Iterator[None]:
    """Raises SpoolFull for errors of the disk."""
    try:
        yield
    except OSError as exc:
        raise SpoolFull(f"The parser's disk cannot take the {of} ({exc.strerror}); see PARSER_SPOOL_DIR.") from None


class PageTimeout(PageFailed):
    """A page took longer than the operator allows."""

    kind = "timeout"


class RequestTimeout(ParserError):
    """All pages together took longer than the operator allows."""


class WorkerLost(PageFailed):
    """Worker processes that had the page ended, as often as a page is tried."""

    kind = "worker_lost"


class Abandoned(ParserError):
    """The page was cancelled because nobody waits for it. No client sees this error."""


class InternalError(PageFailed):
    """A fault of the service; details are in the log only."""

    kind = "internal"
    on_a_page = "The parser failed on this page; the operator finds the details in its log."


# Errors of jobs.


class InvalidJob(ParserError):
    """A field of the submission has a value that is not allowed, or names a pipeline that is not served."""


class JobNotFound(ParserError):
    """There is no such job, or it belongs to another client, or its retention ended."""


class NoOwner(ParserError):
    """Without keys a client cannot be told from others, so it has no jobs of its own that could be listed."""


class LinkRefused(ParserError):
    """The address of a result has expired, or was not made here."""


class NoResultYet(ParserError):
    """The job has no result in its present state."""


class KeyReused(ParserError):
    """An Idempotency-Key came with another submission than the first time."""


class QueueFull(ParserError):
    """The queue of pages or jobs has reached the operator's limit."""

    retry_after_s = 30


class TooBusy(ParserError):
    """All places, or the room for bodies of requests, are taken by requests that are arriving or at work."""

    retry_after_s = 10


class QuotaExceeded(ParserError):
    """A key has used up a quota, or asks for more than is left of it; see ``clients.usage``.

    ``quota`` is its name, ``limit`` and ``used`` are in its unit.
    """

    kind = "quota"
    retry_after_s = 60
    quota = ""
    limit = 0
    used = 0


class DataDirFull(ParserError):
    """The file system of PARSER_DATA_DIR has no room left."""

    retry_after_s = 60


class StorageDamaged(ParserError):
    """The database or a stored result cannot be read."""

    kind = "damaged"


class StorageUnavailable(ParserError):
    """PARSER_DATA_DIR or its database cannot be used now. Jobs wait; nothing is lost."""

    retry_after_s = 10


class StorageAway(StorageUnavailable):
    """PostgreSQL or the bucket did not do what it was asked for; another time it may."""


class Incompatible(StorageUnavailable):
    """The database is a sound one, but not one that this release may touch."""


class OutcomeUnknown(StorageAway):
    """The connection broke while a transaction was being committed: it counts, or it does not."""


def kind_of(name: str | None) -> str:
    """Of the error of this class's name, as it was stored."""
    error = globals().get(name or "")
    return error.kind if isinstance(error, type) and issubclass(error, ParserError) else ParserError.kind
