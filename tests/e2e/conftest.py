# SPDX-License-Identifier: Apache-2.0
"""The real services with the demo weights, started once through scripts/run_demo.sh on free ports, with a collector of
their traces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.local import START_SECONDS, make_local
from tests.support.local_mode import LocalMode
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.paths import DATA


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver(tmp_path_factory.mktemp("traces"))
    yield receiver
    receiver.end()


@pytest.fixture(scope="session")
def local(traces: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMode]:
    """Services that are up, after a first document was parsed; stopped at the end of the session."""
    local = make_local(tmp_path_factory.mktemp("local"))
    local.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = traces.url
    try:
        first = local.call(str(DATA / "report.png"), "--out", "first", timeout=START_SECONDS + 300)
        assert first.returncode == 0, first.stderr[-2000:]
        (local.folder / "first.stdout").write_text(first.stdout)
        (local.folder / "first.stderr").write_text(first.stderr)
        yield local
    finally:
        local.call("--down")


@pytest.fixture(scope="session")
def handbook(local: LocalMode) -> subprocess.CompletedProcess[str]:
    """The call that reads the PDF of three pages, once for all tests; its files lie in the folder `pdf`."""
    done = local.call(str(DATA / "handbook.pdf"), "--out", "pdf", timeout=300)
    assert done.returncode == 0, done.stderr
    return done
