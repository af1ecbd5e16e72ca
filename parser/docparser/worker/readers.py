# SPDX-License-Identifier: Apache-2.0
"""Which reader a VLM wants."""

from __future__ import annotations

from docparser.settings import Settings
from docparser.weights import reads_whole_pages
from docparser.worker.page_reading import PageReader


def page_reader(settings: Settings) -> PageReader:
    """Loads its models. Raises NotReady."""
    if reads_whole_pages(settings):
        from docparser.worker.whole_pages import WholePageReader

        return WholePageReader(settings)
    from docparser.worker.pipeline import PagePipeline  # not at the top: it loads Paddle

    return PagePipeline(settings)
