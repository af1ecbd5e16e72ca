# SPDX-License-Identifier: Apache-2.0
"""The real service with PaddleOCR's pipeline. Simulated are the VLM and the layout model's weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.parser_process import LIMITS, SIMULATED_WORK, ParserProcess, running_service, simulated_layout
from tests.support.simulated_vlm import SimulatedVlm, say_prompt
from tests.support.telltale import OPENTELEMETRY, telltale
from tests.support.wait import wait_for


@pytest.fixture(scope="session")
def layout_model(tmp_path_factory) -> Path:
    return simulated_layout(tmp_path_factory.mktemp("layout") / "PP-DocLayoutV2")


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


class PageVlm(SimulatedVlm):
    """For services whose page work is simulated."""

    def reset(self) -> None:
        super().reset()
        self.answer = say_prompt


@pytest.fixture(scope="session")
def _page_vlm():
    server = PageVlm()
    yield server
    server.close()


@pytest.fixture
def page_vlm(_page_vlm):
    """The VLM of services whose page work is simulated, as new."""
    _page_vlm.reset()
    yield _page_vlm
    _page_vlm.reset()


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


def switched(vlm: SimulatedVlm) -> Iterator[Switch]:
    """Its switch; it is up again afterwards."""
    switch = Switch(vlm)
    yield switch
    if vlm.closed:
        switch.up()


@pytest.fixture
def own_vlm(service, vlm):
    """The switch of the service's VLM."""
    yield from switched(vlm)


@pytest.fixture
def own_page_vlm(page_vlm):
    """The same where page work is simulated."""
    yield from switched(page_vlm)


@pytest.fixture(scope="session")
def _service(tmp_path_factory, layout_model, _vlm):
    folder = tmp_path_factory.mktemp("service")
    paths, _ = telltale(folder, *OPENTELEMETRY)
    settings = {**LIMITS, "LAYOUT_MODEL_DIR": str(layout_model), "PARSER_CONFIDENCE": "1", "PYTHONPATH": paths}
    with running_service(folder, VLM_URL=_vlm.url, **settings) as running:
        yield running


@pytest.fixture
def loaded_opentelemetry(_service) -> Path:
    """A file that is there once the service or a process of its has loaded OpenTelemetry."""
    return _service.log.parent / "loaded"


@pytest.fixture
def service(_service, vlm):
    """The running parser, with its VLM as new."""
    return _service.wait()


@pytest.fixture(scope="session")
def _guarded(tmp_path_factory, layout_model, _page_vlm):
    from docparser.clients.keys import digest

    folder = tmp_path_factory.mktemp("guarded")
    keys = f"sha256:{digest('right')} name=reader pages=2/month", f"sha256:{digest('any')} name=free"
    settings = {
        **LIMITS,
        "LAYOUT_MODEL_DIR": str(layout_model),
        "PARSER_API_KEYS": ",".join(keys),
        "PARSER_AUDIT_LOG": str(folder / "audit"),
    }
    with running_service(folder, SIMULATED_WORK, VLM_URL=_page_vlm.url, **settings) as running:
        yield running


@pytest.fixture
def guarded(_guarded, page_vlm):
    """A service with two keys and an audit log beside its own: `right` may read two pages, `any` what it wants. Its
    page work is simulated."""
    return _guarded.wait()


@pytest.fixture
def refused_start(monkeypatch, capsys):
    """What a start in this process says that settings or models end."""
    from docparser import server  # most tests need none of it here

    def start(**settings: str) -> str:
        monkeypatch.setattr("os.umask", lambda mask: mask)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert server.main() == 2
        said = capsys.readouterr()
        assert said.out == ""
        return said.err

    return start


@pytest.fixture
def start_service(tmp_path, layout_model):
    """Starts further parsers, with other settings; they end with the test."""
    running = []

    def start(**env: str) -> ParserProcess:
        running.append(ParserProcess(tmp_path, **{"LAYOUT_MODEL_DIR": str(layout_model), **env}))
        return running[-1]

    yield start
    for service in running:
        service.end()
