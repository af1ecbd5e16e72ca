# SPDX-License-Identifier: Apache-2.0
"""Runs the service with the settings from the environment."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from pydantic import ValidationError

from docparser.app import create_app
from docparser.errors import NotReady
from docparser.jobs.errors import StorageDamaged, StorageFull
from docparser.logs import configure_logging
from docparser.settings import Settings, variable
from docparser.weights import check_manifest, find_layout_model


def main() -> int:
    """Returns 2 when the configuration is wrong, so that no supervisor tries the same again."""
    try:
        settings = Settings()
    except ValidationError as exc:
        # A default that is derived from a wrong setting is no error of its own.
        for error in (error for error in exc.errors() if error["type"] != "default_factory_not_called"):
            print(f"docparser: {variable(error['loc'][0])}: {error['msg']}; got {error['input']!r}", file=sys.stderr)
        return 2
    try:
        check_manifest(Path(find_layout_model(settings).path))
        app = create_app(settings)
    except (NotReady, StorageDamaged, StorageFull) as exc:
        print(f"docparser: {exc}", file=sys.stderr)
        return 2
    configure_logging(settings.log_level, settings.log_format)
    uvicorn.run(
        app,
        host=settings.bind,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
    )
    return 0
