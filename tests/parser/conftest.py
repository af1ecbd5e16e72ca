# SPDX-License-Identifier: Apache-2.0
"""The real service with PaddleOCR's pipeline. Simulated are the VLM and the layout model's weights alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.parser_process import LIMITS, ParserProcess
from tests.support.processes import child_environment
from tests.support.simulated_vlm import SimulatedVlm
from tests.support.wait import WAIT_S, wait_for


@pytest.fixture(scope="session")
def layout_model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "PP-DocLayoutV2"
    built = subprocess.run(
        [sys.executable, "-m", "tests.support.simulated_layout", str(folder)],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="session")
def _vlm():
    server = SimulatedVlm()
    yield server
    server.close()


@pytest.fixture
def vlm(_vlm):
    """The simulated VLM server, as new."""
    _vlm.reset()
    yield _vlm
    _vlm.reset()


class Switch:
    """Takes the service's VLM down, and brings it back on the same port."""

    def __init__(self, vlm: SimulatedVlm) -> None:
        self._vlm = vlm

    def down(self) -> None:
        self._vlm.close()

    def up(self) -> None:
        wait_for(lambda: self._vlm.in_flight == 0)  # threads of the one that ended still count down
        self._vlm.reset()
        self._vlm.open()


@pytest.fixture
def own_vlm(service, vlm):
    """The switch of the service's VLM, which is up again after the test."""
    switch = Switch(vlm)
    yield switch
    if vlm.closed:
        switch.up()


@pytest.fixture(scope="session")
def _service(tmp_path_factory, layout_model, _vlm):
    settings = {**LIMITS, "LAYOUT_MODEL_DIR": str(layout_model), "PARSER_CONFIDENCE": "1"}
    running = ParserProcess(tmp_path_factory.mktemp("service"), VLM_URL=_vlm.url, **settings)
    try:
        yield running.wait()
    finally:
        running.end()


@pytest.fixture
def service(_service, vlm):
    """The running parser, with its VLM as new."""
    return _service.wait()


@pytest.fixture
def start_service(tmp_path, layout_model):
    """Starts further parsers, with other settings; they end with the test."""
    running = []

    def start(wrapper: tuple[str, ...] = (), **env: str) -> ParserProcess:
        running.append(ParserProcess(tmp_path, wrapper, **{"LAYOUT_MODEL_DIR": str(layout_model), **env}))
        return running[-1]

    yield start
    for service in running:
        service.end()
