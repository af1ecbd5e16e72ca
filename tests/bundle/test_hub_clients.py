# SPDX-License-Identifier: Apache-2.0
"""The model hubs' own clients, as uv brings them today, ask a simulated hub that only pip's settings trust."""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.environments import uv
from bundle.weights import fetch
from tests.support.certificates import speak_https
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tests.support.system_packages import needs
from tool_errors import EnvironmentSetupError

pytestmark = [pytest.mark.server, pytest.mark.long, needs("openssl")]


FILE, COMMIT = b'{"architectures": []}', "a" * 40


class Hub(SimulatedServer):
    """It has the repository `site/model`, with one file, and answers as the clients take it from both hubs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__()

    def handler(self) -> type[JsonHandler]:
        hub = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                hub.asked.append(f"{self.command} {self.path}")
                path = self.path.partition("?")[0]
                if path == "/api/models/site/model/revision/main":
                    self.reply(200, {"id": "site/model", "sha": COMMIT, "siblings": [{"rfilename": "config.json"}]})
                elif path in (f"/site/model/resolve/{COMMIT}/config.json", "/api/v1/models/site/model/repo"):
                    self.text(200, FILE.decode(), ETag=f'"{hashlib.sha256(FILE).hexdigest()}"', X_Repo_Commit=COMMIT)
                elif path == "/api/v1/models/site/model":
                    self.modelscope({})
                elif path == "/api/v1/models/site/model/revisions":
                    self.modelscope({"RevisionMap": {"Branches": [{"Revision": "master", "CreatedAt": 1}], "Tags": []}})
                elif path == "/api/v1/models/site/model/repo/files":
                    about = {"Type": "blob", "Size": len(FILE), "Sha256": hashlib.sha256(FILE).hexdigest()}
                    self.modelscope(
                        {"Files": [{"Name": "config.json", "Path": "config.json", "Revision": COMMIT, **about}]}
                    )
                else:
                    self.reply(404, {"error": "not found"})

            do_HEAD = do_GET

            def modelscope(self, data: dict) -> None:
                self.reply(200, {"Code": 200, "Success": True, "Message": "success", "Data": data})

        return Handler


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """pip's `cert` has the hub's certificate beside those by which this machine reaches its package index."""
    running = Hub()
    uv.ensure_uv()
    known = uv.registry_environment().get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    certificates = tmp_path / "all.pem"
    own = Path(known).read_text() if known and Path(known).is_file() else ""
    certificates.write_text(own + speak_https(running, tmp_path).read_text())
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CERT", str(certificates))
    monkeypatch.setenv("NO_PROXY", f"127.0.0.1,{os.environ.get('NO_PROXY', '')}")
    monkeypatch.setenv("HF_ENDPOINT", f"https://127.0.0.1:{running.port}")
    monkeypatch.setenv("MODELSCOPE_DOMAIN", f"127.0.0.1:{running.port}")
    monkeypatch.setattr(fetch, "RUN_DIR", tmp_path)
    monkeypatch.setattr(fetch, "shown", str)
    uv.registry_environment.cache_clear()
    yield running
    uv.registry_environment.cache_clear()
    running.close()


@pytest.mark.parametrize("name", fetch.HUBS)
def test_a_client_brings_a_repository(hub: Hub, tmp_path: Path, name: str):
    try:
        fetch.download(name, "site/model", tmp_path / "part")
    except EnvironmentSetupError:
        pytest.fail("\n".join([*hub.asked, (tmp_path / "logs/fetch-weights.log").read_text()[-3000:]]))
    assert (tmp_path / "part/config.json").read_bytes() == FILE
