# SPDX-License-Identifier: Apache-2.0
"""The process that drives a run: reaches the cluster and the VLM servers, lists the documents, runs, sums up.

Ray on this machine is started once there are documents to parse, unless it has to start servers (`--engines`)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import ray
import ray.exceptions

from bundle.paths import ROOT, RUN_DIR, VALUES
from bundle.progress import plural
from declared_settings import refuse_mistakes, text
from docparser.errors import ParserError, StorageUnavailable
from docparser.models.readiness import Readiness
from docparser.models.served_model import ServedModel
from docparser.parsing.pool import WorkerPool
from docparser.settings import Settings, variable
from docparser.settings.models import ModelSettings
from docparser.settings.pages import PageSettings
from docparser.settings.requests import RequestSettings
from tool_errors import FAILED, INTERRUPTED, RESUMABLE, ServiceError, ToolError, UsageError

from . import cluster, engines, vlms
from .arguments import Options
from .documents import STATE, LeftOut, listed
from .job import Job
from .progress import Progress, earlier
from .records import ASIDE, INCOMPLETE
from .run import Todo, left_to_do, run
from .storage import FolderStorage, Storage, open_storage

# The settings that a reader needs. Keys do not travel, because each node has its own.
PASSED_ON = {
    variable(field)
    for group in (ModelSettings, PageSettings, RequestSettings)
    for field in group.model_fields
    if field != "vlm_api_key"
}


def drive(options: Options) -> int:
    """Returns 0 if every page of every document is complete, 1 if not. Raises ToolError, and Ray's errors."""
    source, out = open_storage(options.source, "INPUT"), open_storage(options.out, "--out")
    _check(source, out)
    settings = _settings()
    join = functools.partial(cluster.joined, options.ray, options.cpus, dashboard=options.dashboard, lost=_lost)
    with contextlib.ExitStack() as held:
        if options.ray or options.engines:
            held.enter_context(join())
        own = held.enter_context(engines.started(options.engines, options.patience_s))
        job = _job(options, source, out, settings, (*options.vlms, *own))
        left_out = LeftOut()
        found = listed(source, job.made_with, _inside(source, out), left_out)
        todo = left_to_do(job, found, again=options.retry_failed)
        if not any(todo):
            raise UsageError(f"INPUT {options.source}: holds no document; expected PDFs and images.{left_out}")
        say(
            f"{plural(len(todo.left), 'document')} to parse, {todo.done} done earlier"
            + earlier(todo.incomplete, "incomplete", INCOMPLETE)
            + earlier(todo.aside, "set aside", ASIDE)
        )
        if todo.left and not ray.is_initialized():  # Ray's own start takes seconds, which only documents are worth
            held.enter_context(join())
        counts = {"done": todo.done, "incomplete": len(todo.incomplete), "set aside": len(todo.aside)}
        progress = Progress(len(todo.left), sum(one.size for one in todo.left), counts, terminal())
        if todo.left:
            cores = f"{ray.cluster_resources().get('CPU', 0):g} cores on {plural(len(ray.nodes()), 'node')}"
            progress.say(f"{cores}, {plural(len(job.vlms), 'VLM server')}")
            run(job, todo.left, progress)
        progress.say(f"{progress.summary()}{left_out}")
        summary = {**_summary(progress, todo), "left_out": left_out.counts}
        out.put(f"{STATE}summary.json", json.dumps(summary).encode())
    return 0 if _complete(progress, todo) else 1


def _check(source: Storage, out: Storage) -> None:
    """Raises UsageError for storages that cannot be used."""
    if isinstance(source, FolderStorage) and not Path(source.url).is_dir():
        raise UsageError(f"INPUT {source.url}: no such folder")
    if out.url == source.url:
        raise UsageError(f"--out {out.url}: this is INPUT; expected another place, which may lie below INPUT")
    try:
        next(iter(source.entries()), None)
        out.put(f"{STATE}README", b"State of scripts/parse_corpus.py; without it, all documents are parsed again.\n")
    except StorageUnavailable as error:
        raise ServiceError(str(error)) from error


def _inside(source: Storage, out: Storage) -> str:
    """The outputs' place below the input, ending with a slash; "" if they lie elsewhere."""
    return out.url.removeprefix(source.url).lstrip("/") + "/" if out.url.startswith(f"{source.url}/") else ""


def _settings() -> dict[str, str]:
    """The environment, then .env. HARDWARE is the readers': they have no NPU unless the node says so.

    Raises UsageError for a value that no reader would take.
    """
    passed = {name: value for name, value in VALUES.items() if name in PASSED_ON and value}
    refuse_mistakes(passed)
    models = (ROOT / text(VALUES, "MODELS_DIR")).resolve()
    return {**passed, "MODELS_DIR": str(models), "HARDWARE": os.environ.get("HARDWARE") or "cpu"}


def _job(options: Options, source: Storage, out: Storage, settings: dict[str, str], urls: tuple[str, ...]) -> Job:
    """Raises ServiceError, UsageError."""
    os.environ.update(settings)
    parser = Settings(vlm_url=urls[0], vlm_further_urls=",".join(urls[1:]))
    url, weights = vlms.answering(parser, urls, options.patience_s, say)
    return Job(
        source=source.url,
        out=out.url,
        vlms=urls,
        settings=settings,
        request=options.request,
        formats=options.formats,
        models=asyncio.run(_models(parser.model_copy(update={"vlm_url": url}))),
        demo=bool(weights.demo),
        pages_per_part=options.pages_per_part,
        patience_s=options.patience_s,
        threads=options.threads,
    )


async def _models(settings: Settings) -> Mapping[str, Any]:
    """The weights in use, as results name them. Raises NotReady."""
    readiness = Readiness(settings, WorkerPool(settings), ServedModel.of(settings))
    try:
        return await readiness.models_in_use()
    finally:
        await readiness.close()


def _complete(progress: Progress, todo: Todo) -> bool:
    """Whether every page of every document is there, of earlier runs too."""
    return not (progress.aside or progress.missing or progress.incomplete or todo.incomplete or todo.aside)


def _summary(progress: Progress, todo: Todo) -> dict[str, Any]:
    return {
        "documents": {
            "done": progress.done,
            "set_aside": progress.aside + len(todo.aside),
            "earlier": todo.done,
            "earlier_incomplete": len(todo.incomplete),
        },
        "pages": {"read": progress.pages, "missing": progress.missing, "incomplete": progress.incomplete},
        "seconds": round(progress.seconds, 1),
    }


def say(words: str) -> None:
    print(words, file=terminal(), flush=True)


@functools.cache
def terminal() -> TextIO:
    """The stream for people. From here on, Ray's long output goes to a log."""
    kept = os.fdopen(os.dup(2), "w")
    log = RUN_DIR / "logs" / "corpus.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(sink, stream)
    os.close(sink)
    return kept


def ours(exc: BaseException | None) -> ToolError | None:
    """The parser's or the tool's own error inside one of Ray's, in one line."""
    while exc is not None:
        if isinstance(exc, ToolError):
            return exc
        if isinstance(exc, ParserError):
            return ServiceError(f"{exc} {RESUMABLE}")
        exc = getattr(exc, "cause", None) or exc.__cause__ or exc.__context__
    return None


def _lost() -> None:
    """End without an outcome, so that the parent tries again."""
    say("the head does not know this run any more")
    cluster.leave()


def lost(exc: BaseException) -> bool:
    """Whether an error means that the cluster is away, or was away during the run."""
    return isinstance(exc, ConnectionError | ray.exceptions.RaySystemError | ray.exceptions.ActorUnavailableError)


def main(words: list[str]) -> None:
    """Tells the parent how the run ended, if it did."""
    options = Options.from_json(words[0])
    status: int | None
    terminal()
    try:
        status = drive(options)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BaseException as exc:
        known = ours(exc)
        if known is not None:
            say(f"error: {known}")
            status = known.exit_status
        elif lost(exc):
            say(f"{type(exc).__name__}: {exc}")
            status = None
        else:
            say(traceback.format_exc())
            status = FAILED
    if status is not None:
        with os.fdopen(int(os.environ["CORPUS_OUTCOME_FD"]), "w") as outcome:
            outcome.write(f"{status}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
