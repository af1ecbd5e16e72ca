# SPDX-License-Identifier: Apache-2.0
"""An engine with the base image, for as long as tests need it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from bundle.progress import step
from tests.support.paths import ROOT

from . import base_image, daemon
from .packages import EngineError

# All groups of containers with their wheels, layers and build cache.
DISK_NEEDED = 26 * 2**30


@contextmanager
def open_engine() -> Iterator[daemon.Engine]:
    """The machine's own engine, or one that is started here and ended at the end; with the base image.

    Raises EngineError where none can be started, or the disk is too small for the images.
    """
    folder = ROOT / ".run" / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    engine = daemon.existing()
    if engine is None:
        free = shutil.disk_usage(folder).free
        if free < DISK_NEEDED and not (folder / "data").exists():
            raise EngineError(
                f"{free / 2**30:.0f} GiB of disk are free; building the images takes {DISK_NEEDED >> 30} GiB"
            )
        with step("starting a container engine"):
            engine = daemon.start(folder)
    try:
        with step("the base image"):
            base_image.ensure(engine)
        yield engine
    finally:
        engine.stop()
