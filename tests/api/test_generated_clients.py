# SPDX-License-Identifier: Apache-2.0
"""Clients that generators make from `/openapi.json`, in Python, TypeScript and Go: each parses a page, runs a job with
its events, and gets typed errors. Two linters find nothing wrong with the description."""

from __future__ import annotations

import base64
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import without_proxies
from tests.support.paths import ROOT
from tests.support.system_packages import needs

PAGE = ROOT / "tests/data/letter.png"
SOURCES = ROOT / "tests/api/generators"


@pytest.fixture(scope="module")
def description(parser_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("description") / "openapi.json"
    file.write_text(httpx.get(f"{parser_url}/openapi.json", trust_env=False).text)
    return file


def done(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert not ended.returncode, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


class TestPython:
    """openapi-python-client."""

    @pytest.fixture(scope="class")
    def api(self, description: Path) -> Iterator[Path]:
        """The folder that has the package `parser_client`."""
        config = description.with_name("config.json")
        config.write_text(json.dumps({"post_hooks": [], "package_name_override": "parser_client"}))
        words = ("--path", description, "--config", config, "--output-path", description.with_name("parser_client"))
        command = (Path(sys.executable).with_name("openapi-python-client"), "generate", "--meta", "none")
        said = done(*command, *words, cwd=description.parent)
        # A client reads bytes itself; the generator warns of media types that it makes no type for.
        assert "Error" not in said, said
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(description.parent))
            yield description.parent

    def test_it_parses_a_page_runs_a_job_and_gets_typed_errors(self, api: Path, parser_url: str):
        def load(name: str) -> Any:
            return importlib.import_module(f"parser_client.{name}")

        models, types = load("models"), load("types")
        client = load("client").Client(base_url=parser_url, timeout=120, httpx_args={"trust_env": False})
        encoded = base64.b64encode(PAGE.read_bytes()).decode()
        layout_parsing = load("api.parsing.parse_document")
        answer = layout_parsing.sync(client=client, body=models.ParseRequest(file=encoded, visualize=False))
        assert isinstance(answer, models.ParseAnswer)
        (page,) = answer.result.layout_parsing_results
        assert page.markdown.text and page.pruned_result.parsing_res_list[0].block_label
        assert answer.result.docparser.partial is False

        error = layout_parsing.sync(client=client, body=models.ParseRequest(file="!!"))
        assert isinstance(error, models.Error) and error.error_code == 422 and error.error_msg.startswith("file: ")
        upload = types.File(payload=PAGE.open("rb"), file_name=PAGE.name, mime_type="image/png")
        parse_file = load("api.parsing.parse_file")
        body = models.ParseFileBody(file=upload)
        text = parse_file.sync_detailed(client=client, body=body)
        assert text.status_code == 200 and page.markdown.text[:20] in text.content.decode()

        upload = types.File(payload=PAGE.open("rb"), file_name=PAGE.name, mime_type="image/png")
        form = models.SubmitJobFilesBody(model="PaddleOCR-VL", file=upload)
        submitted = load("api.jobs.submit_job").sync(client=client, body=form, idempotency_key="mine")
        assert isinstance(submitted, models.SubmittedAnswer)
        job = submitted.data.job_id
        events = load("api.jobs.follow_job").sync(client=client, job_id=job)
        assert "event: page" in events and '"state": "done"' in events
        state = load("api.jobs.get_job").sync(client=client, job_id=job)
        assert isinstance(state, models.JobAnswer) and state.data.state == "done"
        assert state.data.create_time.year > 2000 and state.data.result_url.json_url
        line = load("api.jobs.get_job_page").sync(client=client, job_id=job, number=1)
        assert line.result.layout_parsing_results[0].markdown.text[:20] == page.markdown.text[:20]
        missing = load("api.jobs.get_job").sync(client=client, job_id="x")
        assert isinstance(missing, models.JobError) and missing.code == 404


@pytest.mark.long
@needs("nodejs", "npm")
class TestNode:
    @pytest.fixture(scope="class")
    def folder(self, description: Path) -> Path:
        folder = description.with_name("generators")
        shutil.copytree(SOURCES, folder)
        done("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
        return folder

    def test_linters_find_nothing(self, folder: Path, description: Path):
        found = json.loads(done("node", "lint.mjs", description, cwd=folder))
        assert found == {"spectral": [], "redocly": []}

    def test_a_client_in_typescript(self, folder: Path, description: Path, parser_url: str):
        """Types are checked by the compiler: what is not described would be `unknown` or `never`."""
        done("node", "node_modules/openapi-typescript/bin/cli.js", description, "-o", "parser.d.ts", cwd=folder)
        done("node", "node_modules/typescript/bin/tsc", "-p", ".", cwd=folder)
        said = json.loads(done("node", "client.js", parser_url, PAGE, cwd=folder))
        assert said["text"] and said["label"]
        assert said["pages"][-1] == "done" and said["ended"] == "done"
        assert said["error"]["errorCode"] == 422 and said["code"] == 404


@pytest.mark.long
@needs("golang-go")
class TestGo:
    """openapi-generator, whose client in Go needs Go's own library alone."""

    @pytest.fixture(scope="class")
    def client(self, description: Path) -> Path:
        """The compiled program. The compiler asks no registry; what it made of Go's own library it keeps in .run."""
        folder = description.with_name("go")
        folder.mkdir()
        properties = "packageName=parser,enumClassPrefix=true,withGoMod=false"
        # The generator has no type of Go for JSON's null.
        words = ("-g", "go", "--type-mappings", "null=any", f"--additional-properties={properties}")
        only = "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false"
        command = (Path(sys.executable).with_name("openapi-generator-cli"), "generate", "-i", description)
        said = done(*command, "-o", folder / "parser", *words, "--global-property", only, cwd=folder)
        assert "ERROR" not in said, said
        shutil.copy(SOURCES / "client.go", folder)
        (folder / "go.mod").write_text("module example\n\ngo 1.19\n")
        own = {"GOCACHE": str(ROOT / ".run/go-cache"), "GOPATH": str(folder / "path")}
        own |= {"GOPROXY": "off", "CGO_ENABLED": "0"}
        done("go", "build", "-o", "client", ".", cwd=folder, env=os.environ | own)
        return folder / "client"

    def test_a_client_in_go(self, client: Path, parser_url: str):
        said = json.loads(done(client, parser_url, PAGE, cwd=client.parent, env=without_proxies()))
        assert said["text"] and said["label"]
        assert "event: page" in said["events"] and '"state": "done"' in said["events"] and said["ended"] == "done"
        assert said["error"] == 422 and said["code"] == 404
