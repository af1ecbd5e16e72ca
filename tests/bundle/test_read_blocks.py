# SPDX-License-Identifier: Apache-2.0
"""python -m selftest.read: one block by each replica, without recorded values."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle import selftest
from bundle.compose import served_model
from bundle.local_mode.settings import LocalSettings
from container import status as container
from selftest import check, chinese
from selftest.server import OTHER_SAMPLING, Server
from served_weights.catalog import DEFAULT_FILE, Catalog
from served_weights.question import Question
from tests.support.paths import ROOT
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tool_errors import ServiceError, UsageError

CHINESE = base64.b64encode(chinese.PICTURE.read_bytes()).decode()


class SimulatedReplica(SimulatedServer):
    """Says `text` for every picture but the one in Chinese, in the form of vLLM's answers with token ids."""

    text = "The same sentence."
    chinese = "".join(chinese.LINES)
    served_name, root = "PaddleOCR-VL-0.9B", "/models/m"
    key = ""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sampled: list[dict[str, float]] = []
        self.lacks_sampling = False
        super().__init__()

    def handler(self) -> type[JsonHandler]:
        replica = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                if self.refuses(replica.key):
                    return
                self.reply(200, {"data": [{"id": replica.served_name, "root": replica.root}]})

            def do_POST(self) -> None:
                body = self.body()
                if self.refuses(replica.key):
                    return None
                if body["temperature"]:
                    replica.sampled.append({name: body[name] for name in OTHER_SAMPLING})
                    return self.reply(500 if replica.lacks_sampling else 200, {})
                picture, words = body["messages"][0]["content"]
                replica.asked.append(words["text"])
                if picture["image_url"]["url"].endswith(CHINESE):
                    said = [{"message": {"content": replica.chinese}}]
                    return self.reply(200, {"usage": {"completion_tokens": 50}, "choices": said})
                entry = {"token": "token_id:1", "top_logprobs": [{"token": "token_id:1", "logprob": -0.1}]}
                choice = {"message": {"content": replica.text}, "logprobs": {"content": [entry]}, "token_ids": [1]}
                self.reply(200, {"prompt_token_ids": [1], "choices": [choice]})

        return Handler


@pytest.fixture
def replicas() -> Iterator[list[SimulatedReplica]]:
    found = [SimulatedReplica() for _ in range(3)]
    yield found
    for replica in found:
        replica.close()


def read(folder: Path, replicas: list[SimulatedReplica]) -> tuple[int, list[dict]]:
    file = folder / "replicas.json"
    file.write_text(json.dumps({"ports": [replica.port for replica in replicas]}))
    done = subprocess.run(
        [sys.executable, "-m", "selftest.read", "--replicas", file],
        env={**os.environ, "PYTHONPATH": str(ROOT / "common")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.server
def test_replicas_that_agree(replicas: list[SimulatedReplica], tmp_path: Path):
    status, found = read(tmp_path, replicas)
    assert status == 0 and [answer["text"] for answer in found] == [f"The same sentence. {''.join(chinese.LINES)}"] * 3
    assert not any(answer["error"] for answer in found)


@pytest.mark.server
def test_replicas_that_ask_for_a_key(replicas: list[SimulatedReplica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """VLM_ARGS=--api-key: the container's start leaves the key beside replicas.json."""
    for replica in replicas:
        replica.key = "s3cret"
    assert "HTTP 401" in read(tmp_path, replicas)[1][0]["error"]
    container.write_key({"RUN_DIR": str(tmp_path), "VLLM_API_KEY": "s3cret"})
    assert (tmp_path / "vlm-api-key").stat().st_mode & 0o777 == 0o600
    assert read(tmp_path, replicas)[0] == 0
    monkeypatch.setattr(sys, "argv", ["selftest", "--replicas", str(tmp_path / "replicas.json")])
    with pytest.raises(UsageError, match="there are no recorded values for these weights"):
        check.main()

    def ask_inside(*words: str) -> subprocess.CompletedProcess[str]:
        """The container's own program, at this machine's port and folder."""
        code = words[-1].replace("127.0.0.1:8000", f"127.0.0.1:{replicas[0].port}")
        code = code.replace(str(served_model.KEY.parent), str(tmp_path))
        env = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)

    monkeypatch.setattr(served_model.project, "compose", ask_inside)
    assert served_model.served("vlm") == "m"
    container.write_key({"RUN_DIR": str(tmp_path)})
    assert not (tmp_path / "vlm-api-key").exists() and served_model.served("vlm") == ""


@pytest.mark.server
def test_local_mode_asks_with_the_parsers_key(replicas: list[SimulatedReplica], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VLM_API_KEY", raising=False)
    replicas[0].key = replicas[1].key = "s3cret"
    url, another = (f"http://127.0.0.1:{replica.port}/v1" for replica in replicas[:2])
    settings = LocalSettings({"VLM_URL": url, "PARSER_VLM_API_KEY": "s3cret"})
    assert selftest.server(Namespace(vlm=url), settings).root == "/models/m"
    with pytest.raises(ServiceError, match="HTTP 401"):
        selftest.server(Namespace(vlm=another), settings)


@pytest.mark.server
def test_each_samples_as_the_parser_does(replicas: list[SimulatedReplica], tmp_path: Path):
    """Its operators are others than those of a greedy answer."""
    replicas[2].lacks_sampling = True
    status, found = read(tmp_path, replicas)
    assert status == 1 and [bool(answer["error"]) for answer in found] == [False, False, True]
    assert "HTTP 500" in found[2]["error"] and replicas[0].sampled == [OTHER_SAMPLING]


@pytest.mark.server
@pytest.mark.parametrize("name", ["PaddleOCR-VL-1.6", "HunyuanOCR", "Qwen2-VL-7B-Instruct"])
def test_each_is_asked_in_its_models_words(replicas: list[SimulatedReplica], tmp_path: Path, name: str):
    entry = Catalog.load(DEFAULT_FILE).models[name]
    assert entry.golden
    replicas[0].served_name = entry.served_name
    assert read(tmp_path, replicas[:1])[0] == 0 and replicas[0].asked == [entry.golden.prompt] * 2


@pytest.mark.server
def test_chinese_that_is_read_as_something_else(replicas: list[SimulatedReplica], tmp_path: Path):
    """As a public report has it of another model: English is right, Chinese is not (vllm-ascend #14663)."""
    half = "".join(chinese.LINES)
    replicas[0].chinese = half[: len(half) // 3]
    replicas[1].chinese = "0000 0000"
    replicas[2].chinese = half.replace("\uff0c", ", ") + "\n"
    status, found = read(tmp_path, replicas)
    assert status == 1 and [bool(answer["error"]) for answer in found] == [True, True, False]
    assert found[1]["error"].startswith("a block of Chinese was read as '0000 0000'")


@pytest.mark.server
def test_the_demo_weights_are_not_asked_for_chinese(replicas: list[SimulatedReplica], tmp_path: Path):
    (tmp_path / "demo").mkdir()
    replicas[0].root, replicas[0].chinese = str(tmp_path / "demo/PaddleOCR-VL"), ""
    status, [answer] = read(tmp_path, replicas[:1])
    assert (status, answer["text"]) == (0, "The same sentence.")


@pytest.mark.server
def test_one_that_differs_reads_nothing_or_is_away(replicas: list[SimulatedReplica], tmp_path: Path):
    replicas[1].text = "The some sentence."
    status, found = read(tmp_path, replicas)
    assert status == 1
    assert [answer["error"] for answer in found] == ["", "reads another text than 2 of 3 replicas", ""]
    replicas[1].text = " "
    replicas[2].close()
    status, found = read(tmp_path, replicas)
    assert status == 1 and found[0]["error"] == "" and found[1]["error"] == "read nothing"
    assert "cannot be reached" in found[2]["error"]


@pytest.mark.server
def test_a_text_and_its_number_of_tokens(replicas: list[SimulatedReplica]):
    """By which graph modes are compared."""
    server = Server(f"http://127.0.0.1:{replicas[0].port}")
    question = Question("OCR:", 112896, 1003520)
    assert server.read(chinese.PICTURE.read_bytes(), question, 128) == ("".join(chinese.LINES), 50)
