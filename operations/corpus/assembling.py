# SPDX-License-Identifier: Apache-2.0
"""The last stage: the pages of a document become its files, with the code of scripts/parse_folder.py."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from batch import answers, inputs, outputs
from batch.pages import Page
from batch.state import DocumentState, Trouble
from bundle import files
from docparser.errors import StorageAway
from file_types import IMAGE, PDF
from tool_errors import ParseError

from . import records, table
from .arguments import FORMATS
from .documents import TABLE, Document, Part, parts_of, split
from .job import Job, at_work
from .page_service import PageRead
from .records import Outcome
from .storage import Storage

PARQUET = "parquet"


def keep_part(job: Job, part: Part, pages: Iterable[PageRead]) -> None:
    """Keep the read pages of a part of a document, a line each. Raises StorageUnavailable."""
    lines = [json.dumps({"page": page.number, "result": page.result, "seconds": page.seconds}) for page in pages]
    job.patiently(lambda: job.output().put(part.name, "\n".join(lines).encode()))


def from_parts(job: Job, document: Document, pages: int, format: str) -> Outcome:
    """Assemble a document from its kept parts, then remove these. Ray may call this again for a finished document,
    whose parts are gone. Raises StorageUnavailable."""
    storage = job.output()
    outcome = job.patiently(lambda: records.ended(storage, document))
    if outcome is None:
        outcome = assemble(job, document, pages, format, _kept(job, storage, document, pages))
    job.patiently(lambda: storage.delete_all(parts_of(document)))
    return outcome


def assemble(job: Job, document: Document, pages: int, format: str, read: Iterable[PageRead]) -> Outcome:
    """Write all outputs of a document, and then its record. Raises StorageUnavailable."""
    with at_work() as folder:
        name = PurePosixPath(document.name)
        source = inputs.Document(Path("/nowhere") / name.name, Path(name))
        state = DocumentState(source, folder, dict(job.request), lasting=False)
        state.start(pages)
        seconds = {}
        for page in read:
            seconds[page.number] = page.seconds
            _keep(state, page, PDF if format == "PDF" else IMAGE)
        for number in set(range(1, pages + 1)) - seconds.keys():
            state.note(Trouble(number, "nothing was read of it"))
        paths = outputs.write_all(state, [name for name in job.formats if name != PARQUET])
        paths += (state.folder / "images").glob("*")
        storage = job.output()
        for path in paths:
            _upload(job, storage, f"{document.name}/{path.relative_to(state.folder).as_posix()}", path)
        if PARQUET in job.formats:
            path = folder / "pages.parquet"
            table.write(state, path, seconds)
            _upload(job, storage, f"{TABLE}{document.name}.parquet", path)
        outcome = Outcome(
            document.name,
            pages,
            missing=sum(trouble.lost for trouble in state.trouble),
            incomplete=sum(not trouble.lost for trouble in state.trouble),
        )
        job.patiently(lambda: records.keep(storage, document, outcome))
    return outcome


def _upload(job: Job, storage: Storage, name: str, path: Path) -> None:
    job.patiently(lambda: storage.upload(name, path))


def _keep(state: DocumentState, page: PageRead, file_type: int) -> None:
    try:
        answers.keep(state, page.number, Page(b"", file_type), page.result)
    except ParseError as error:
        state.note(Trouble(page.number, str(error)))


def _kept(job: Job, storage: Storage, document: Document, pages: int) -> Iterator[PageRead]:
    """The kept parts. They are asked for by name, because a bucket may list an object late."""
    for part in split(document, pages, job.pages_per_part):
        for line in _lines(job, storage, part):
            page: dict[str, Any] = json.loads(line)
            yield PageRead(page["page"], page["result"], page["seconds"])


def _lines(job: Job, storage: Storage, part: Part) -> list[bytes]:
    """A kept part that is not there counts as a storage that is away, so it is waited for. Raises StorageAway."""

    def get() -> bytes:
        content = storage.get(part.name)
        if content is None:
            raise StorageAway(f"{part.name} was written to {storage.url} and is not there.")
        return content

    return job.patiently(get).splitlines()


def remove_parts(job: Job, document: Document) -> None:
    """Remove the kept parts of a document that is set aside."""
    with contextlib.suppress(Exception):  # the next run that reads the document finds them again
        job.output().delete_all(parts_of(document))


def remove_former(job: Job, document: Document) -> None:
    """Remove the outputs of a former version of a document, and then its record. Without a record, outputs belong to
    the next version; and Ray may repeat a call. Raises StorageUnavailable."""
    job.patiently(lambda: _remove_former(job.output(), document))


def _remove_former(storage: Storage, document: Document) -> None:
    if records.ended(storage, document):
        stem = files.stem(Path(document.name))
        storage.delete_all(f"{document.name}/images/")
        for name in set(FORMATS) - {PARQUET}:
            storage.delete(f"{document.name}/{stem}{outputs.FORMATS[name][0]}")
        storage.delete(f"{TABLE}{document.name}.parquet")
    for folder in records.FOLDERS:
        records.forget(storage, document, folder)
