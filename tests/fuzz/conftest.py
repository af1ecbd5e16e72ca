# SPDX-License-Identifier: Apache-2.0
"""The real service with PaddleOCR's pipeline and a VLM that says what it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.parser_process import LIMITS, ParserProcess, running_service, simulated_layout
from tests.support.simulated_vlm import SimulatedVlm


@pytest.fixture(scope="session")
def vlm() -> Iterator[SimulatedVlm]:
    server = SimulatedVlm()
    yield server
    server.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, vlm: SimulatedVlm) -> Iterator[ParserProcess]:
    """Its temporary files go to a folder of its own, so that what it leaves behind is seen."""
    folder = tmp_path_factory.mktemp("service")
    layout = simulated_layout(folder / "PP-DocLayoutV2")
    (folder / "temporary").mkdir()
    settings = {**LIMITS, "PARSER_PAGE_TIMEOUT_S": "120", "PARSER_WORKERS": "2", "TMPDIR": str(folder / "temporary")}
    with running_service(folder, VLM_URL=vlm.url, LAYOUT_MODEL_DIR=str(layout), **settings) as running:
        yield running
