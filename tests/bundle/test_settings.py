# SPDX-License-Identifier: Apache-2.0
"""Settings of local mode, the installer's view of pip's configuration, and stamps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle import parser_client
from bundle.environments import uv
from bundle.environments.environment import clear_stamp, is_current, write_stamp
from bundle.local_mode.services import Services
from bundle.local_mode.settings import LocalSettings, socket_path
from tests.support.paths import ROOT
from tool_errors import ParseError, UsageError
from vlm_server.settings import Settings


def test_local_mode_computes_on_the_cpu_and_finds_its_own_vlm():
    settings = LocalSettings.of({"VLM_PORT": "9100", "PARSER_PORT": "9001", "HARDWARE": "ascend"})
    assert (settings.address("vlm"), settings.address("parser")) == ("http://127.0.0.1:9100", "http://127.0.0.1:9001")
    assert settings.values["HARDWARE"] == "cpu"
    assert settings.values["VLM_URL"] == "http://127.0.0.1:9100/v1"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"VLM_PORT": "eight"}, "VLM_PORT is 'eight'"),
        ({"PARSER_PORT": "70000"}, "PARSER_PORT is '70000'"),
        ({"READY_TIMEOUT": "soon"}, "READY_TIMEOUT is 'soon'"),
    ],
)
def test_values_that_cannot_be_used(variables: dict[str, str], words: str):
    with pytest.raises(UsageError, match=words):
        LocalSettings.of(variables)


@pytest.mark.parametrize(
    ("said", "name", "other"),
    [
        ({"VLM_PORT": "9001", "PARSER_PORT": "9001"}, "VLM_PORT", "PARSER_PORT"),
        ({"LAYOUT_SERVER": "1", "PARSER_PORT": "8001"}, "LAYOUT_PORT", "PARSER_PORT"),
        ({"LAYOUT_SERVER": "1", "LAYOUT_PORT": "8000"}, "VLM_PORT", "LAYOUT_PORT"),
    ],
)
def test_ports_meet_in_local_mode_alone(said: dict[str, str], name: str, other: str):
    """Each container has ports of its own: the scripts for containers ask the parser where it is published."""
    with pytest.raises(UsageError, match=rf"{name} and {other} are both \d+; expected different ports"):
        Services(LocalSettings.of(said)).check()
    assert parser_client.address(said) == f"http://127.0.0.1:{said.get('PARSER_PORT') or 8080}"


@pytest.mark.parametrize(
    ("bind", "host"),
    [
        *(("0.0.0.0", "127.0.0.1"), ("", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("fd00::7", "[fd00::7]")),
        *(("[::]", "[::1]"), ("[fd00::7]", "[fd00::7]")),
    ],
)
def test_where_a_service_is_asked_that_is_bound_to_an_address(bind: str, host: str):
    assert parser_client.address({"PARSER_BIND": bind}) == f"http://{host}:8080"
    settings = LocalSettings.of({"PARSER_BIND": bind, "VLM_HOST": bind})
    assert "[" not in settings.values["PARSER_BIND"], "the parser itself listens there"
    assert settings.address("parser") == f"http://{host}:8080"
    assert settings.values["VLM_URL"] == f"http://{host}:8000/v1"


def test_every_setting_that_a_service_reads_counts_for_services_that_run():
    said = {"PARSER_API_KEYS": "sha256:" + "0" * 64, "VLM_ARGS": "--api-key planted"}
    before = LocalSettings.of(said).identity
    assert "planted" not in str(before) and "0000" not in str(before)
    for name, value in {
        "PARSER_TEXT_LAYER": "off",
        "VLM_PRECISION": "int8",
        "VLM_ARGS": "--max-num-seqs 4",
        "PARSER_API_KEYS": "sha256:" + "1" * 64,
        "PUBLIC_URL": "https://ocr.example.org",
        "PARSER_PORT": "8081",
    }.items():
        now = LocalSettings.of({**said, name: value}).identity
        assert {key for key in {*before, *now} if before.get(key) != now.get(key)} == {name}
    # Nobody but run_demo.sh itself, or a container, reads these.
    unread = {"READY_TIMEOUT": "1", "PARSER_MEM_LIMIT": "20g", "WHEELS_DIR": "wheels"}
    assert LocalSettings.of(unread).identity == LocalSettings.of({}).identity


def test_local_mode_starts_beside_a_file_for_containers_on_ascend():
    """It computes on the CPU whatever .env says for compose: the launcher would refuse graphs and a die's memory there,
    and the parser would wait for a name of compose's network."""
    lines = "HARDWARE=ascend VLM_GRAPH_MODE=full_decode_only VLM_MEMORY_UTILIZATION=0.7 LAYOUT_SERVER=1".split()
    lines += "LAYOUT_DEVICE=npu:3 LAYOUT_URL=http://vlm:8001".split()
    local = LocalSettings.of(dict(line.split("=", 1) for line in lines))
    launched = Settings.from_environment(local.values)
    assert launched.graph_mode is None and launched.memory_utilization is None
    assert (local.values["LAYOUT_DEVICE"], local.address("layout")) == ("cpu", "http://127.0.0.1:8001")


def test_the_socket_path_is_short_in_a_deep_checkout():
    assert socket_path(Path("/a")) == Path("/a/supervisor.sock")
    deep = socket_path(Path("/" + "x" * 120))
    assert len(os.fsencode(deep)) < 95 and deep == socket_path(Path("/" + "x" * 120))


def test_pip_settings_reach_uv(tmp_path: Path, monkeypatch):
    uv.ensure_uv()
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = file:///mirror/simple\nextra-index-url = file:///more\n    file:///most\n"
        "find-links = /wheels /more-wheels\ncert = /certs/ca.pem\n"
    )
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")) or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path))
    uv.registry_environment.cache_clear()
    try:
        env = uv.registry_environment()
        assert env["UV_DEFAULT_INDEX"] == "file:///mirror/simple"
        assert env["UV_INDEX"].split() == ["file:///more", "file:///most"]
        assert env["UV_FIND_LINKS"] == "/wheels,/more-wheels"
        assert env["SSL_CERT_FILE"] == "/certs/ca.pem"
        assert "--no-index" not in uv.pip_command(Path("python"), ["sync", "lock.txt"])
        monkeypatch.setenv("PIP_FIND_LINKS", "/carried")
        uv.registry_environment.cache_clear()
        assert uv.registry_environment()["UV_FIND_LINKS"] == "/carried", "the environment wins over the file"
        lock = uv.registry_environment(mirrors_only=True)
        assert "UV_INDEX" not in lock and lock["UV_DEFAULT_INDEX"] == "file:///mirror/simple"
    finally:
        uv.registry_environment.cache_clear()


def test_without_an_index_nothing_but_the_folder_of_wheels_is_asked(tmp_path: Path, monkeypatch):
    """Every package of a lock is missing then, and uv says so without a word about a connection."""
    uv.ensure_uv()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    lock = tmp_path / "lock.txt"
    lock.write_text("absent-package==1.0\n")
    # Nobody listens there: whoever asks an index fails with a connection's error.
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    uv.registry_environment.cache_clear()
    try:
        command = uv.pip_command(tmp_path / "venv/bin/python", ["sync", str(lock)])
        done = subprocess.run(command, env=uv.registry_environment(), capture_output=True, text=True, check=False)
    finally:
        uv.registry_environment.cache_clear()
    assert done.returncode and "absent-package" in done.stderr and "127.0.0.1" not in done.stderr, done.stderr


def test_stamp(tmp_path: Path):
    lock = tmp_path / "lock.txt"
    lock.write_text("a")
    assert not is_current(tmp_path, [lock])
    write_stamp(tmp_path, [lock], {"K": "1"})
    assert is_current(tmp_path, [lock], {"K": "1"}) and not is_current(tmp_path, [lock], {"K": "2"})
    lock.write_text("b")
    assert not is_current(tmp_path, [lock], {"K": "1"})
    clear_stamp(tmp_path)
    clear_stamp(tmp_path)


def test_exit_status():
    assert UsageError("x").exit_status == 2 and ParseError("x").exit_status == 1


def test_setup_env_refuses_an_unknown_name():
    result = subprocess.run([ROOT / "scripts/setup_env.sh", "vlm2"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "unknown environment 'vlm2'; expected one or more of tools" in result.stderr
    assert subprocess.run([ROOT / "scripts/setup_env.sh"], capture_output=True, check=False).returncode == 2


def test_the_scripts_import_with_the_standard_library_only():
    code = "import bundle.demo, bundle.environments.setup, bundle.environments.locks, health_probe"
    env = {"PYTHONPATH": f"{ROOT}/operations:{ROOT}/common"}
    command = [sys.executable, "-S", "-P", "-c", code]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
