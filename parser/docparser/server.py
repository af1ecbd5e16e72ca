# SPDX-License-Identifier: Apache-2.0
"""Runs the service with the settings from the environment."""

from __future__ import annotations

import importlib.util
import logging
import os
import resource
import sys
import tempfile
from collections.abc import Collection

import uvicorn
from pydantic import ValidationError

from declared_settings import unknown
from docparser.app import create_app
from docparser.errors import DataDirFull, NotReady, StorageAway, StorageUnavailable
from docparser.http_protocol import bounded_protocol
from docparser.logs import configure_logging
from docparser.parsing.pool import WorkerPool
from docparser.settings import Settings, wrong
from docparser.weights import find_layout_model, names_served, reads_whole_pages, settled
from isolation import hide, lacking
from tool_errors import with_place

log = logging.getLogger(__name__)


def main() -> int:
    """Returns 2 if the configuration is wrong or the models cannot be loaded; the supervisor does not restart a process
    that ends so. 1 if PostgreSQL or the bucket stayed away, or the VLM serves another model by now."""
    hide()  # the keys in its environment and memory
    os.umask(0o077)  # documents and results are for this user alone
    if found := unknown(os.environ):
        print("\n".join(f"docparser: {with_place(line)}" for line in found), file=sys.stderr)
        return 2
    try:
        settings = Settings()
    except ValidationError as exc:
        print("\n".join(f"docparser: {with_place(words)}" for words in wrong(exc)), file=sys.stderr)
        return 2
    try:
        chosen = settings
        settings = settled(chosen, () if chosen.vlm_model else names_served(chosen))
        if not reads_whole_pages(settings):
            find_layout_model(settings, verify=True)
            _check_layout_engine(settings)
        app = create_app(settings)
    except (NotReady, StorageUnavailable, DataDirFull) as exc:
        print(f"docparser: {with_place(str(exc))}", file=sys.stderr)
        return 1 if isinstance(exc, StorageAway) else 2
    configure_logging(settings.log_level, settings.log_format)
    if missing := lacking():
        log.warning(
            "the kernel has no %s (or the container's profile forbids it): processes that read documents are less "
            "isolated; docs/secure.md says what is missing",
            " and no ".join(missing),
        )
    _raise_descriptors()
    if settings.spool_dir is not None:
        tempfile.tempdir = str(settings.spool_dir)  # forms, too: /tmp may be memory
    config = uvicorn.Config(
        app,
        http=bounded_protocol(settings),
        ws="none",
        proxy_headers=bool(settings.trusted_proxy_list),
        forwarded_allow_ips=",".join(settings.trusted_proxy_list),
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type]  # it is given to loop.call_later
        host=settings.bind,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    pool: WorkerPool = app.state.pool
    given_up: list[str] = []

    def give_up() -> None:
        given_up.append(pool.not_ready_because)
        server.should_exit = True

    pool.when_given_up = give_up
    others: list[str] = []

    def follow(served: Collection[str]) -> None:
        """End, to be started for the model that the VLM serves now: its container alone was made anew."""
        try:
            other = settled(chosen, served)
        except NotReady:
            return
        if other.vlm_model_name in served and other.vlm_model != settings.vlm_model and not others:
            others.append(f"VLM_MODEL is not set, and the VLM serves {other.vlm_model} now")
            log.warning("%s: the parser restarts for it", others[0])
            server.should_exit = True

    app.state.readiness.when_other(follow)
    server.run()
    if given_up:
        print(f"docparser: no worker could be started: {given_up[0]}", file=sys.stderr)
        return 2
    return 1 if others else 0


def _check_layout_engine(settings: Settings) -> None:
    """Raises NotReady. Whether OpenVINO can run the model is found out by the workers."""
    if settings.layout_engine == "openvino" and importlib.util.find_spec("openvino") is None:
        raise NotReady("LAYOUT_ENGINE is openvino, but OpenVINO is not installed; install it, or set auto or paddle.")


def _raise_descriptors() -> None:
    """A connection takes a descriptor, and its body another; many systems begin with 1,024 and allow far more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
