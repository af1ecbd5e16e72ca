# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with jobs. ``route.STATUS`` maps these, and the parser's other errors, to status codes."""

from __future__ import annotations

from docparser.errors import ParserError


class InvalidJob(ParserError):
    """A field of the submission has a value that it may not have, or names a pipeline that is not served."""


class JobNotFound(ParserError):
    """There is no such job, or it belongs to another client, or its retention ended."""


class LinkExpired(ParserError):
    """A result's address is no longer valid, or never was."""


class NoResultYet(ParserError):
    """The job has nothing to show in this state."""


class KeyReused(ParserError):
    """An Idempotency-Key came with another submission than the first time."""


class QueueFull(ParserError):
    """The queue of pages or jobs has reached the operator's limit."""

    retry_after_s = 30


class StorageFull(ParserError):
    """The file system of the data directory has no room left."""

    retry_after_s = 60


class StorageDamaged(ParserError):
    """The database or a stored result cannot be read."""
