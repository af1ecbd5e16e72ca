# SPDX-License-Identifier: Apache-2.0
"""Settings of local mode, the installer's view of pip's configuration, and stamps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.environments import uv
from bundle.environments.stamp import clear_stamp, is_current, write_stamp
from bundle.settings import LocalSettings, socket_path
from tests.support.paths import ROOT
from tool_errors import ParseError, UsageError
from vlm_server.settings import Settings


def test_environment_wins_over_file(tmp_path: Path):
    (tmp_path / ".env").write_text("VLM_PORT=9000\nPARSER_PORT=9001\nHARDWARE=ascend\n")
    settings = LocalSettings.load({"VLM_PORT": "9100"}, tmp_path / ".env")
    assert (settings.vlm_port, settings.parser_port) == (9100, 9001)
    assert settings.values["HARDWARE"] == "cpu"
    assert settings.values["VLM_URL"] == "http://127.0.0.1:9100/v1"


def test_malformed_env_file(tmp_path: Path):
    (tmp_path / ".env").write_text("A=1\nVLM_PORT 9000\n")
    with pytest.raises(UsageError, match=r"\.env, line 2: 'VLM_PORT 9000'"):
        LocalSettings.load({}, tmp_path / ".env")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"VLM_PORT": "eight"}, "VLM_PORT is 'eight'"),
        ({"PARSER_PORT": "70000"}, "PARSER_PORT is '70000'"),
        ({"VLM_PORT": "9001", "PARSER_PORT": "9001"}, "both 9001"),
        ({"READY_TIMEOUT": "soon"}, "READY_TIMEOUT is 'soon'"),
    ],
)
def test_values_that_cannot_be_used(tmp_path: Path, variables: dict[str, str], words: str):
    with pytest.raises(UsageError, match=words):
        LocalSettings.load(variables, tmp_path / ".env")


def test_a_service_bound_to_all_addresses_is_asked_on_loopback(tmp_path: Path):
    settings = LocalSettings.load({"PARSER_BIND": "0.0.0.0"}, tmp_path / ".env")
    assert settings.parser_url == "http://127.0.0.1:8080"


def test_local_mode_starts_beside_a_file_for_containers_on_ascend(tmp_path: Path):
    """It computes on the CPU whatever .env says for compose: the launcher would refuse graphs and a die's memory there,
    and the parser would wait for a name of compose's network."""
    lines = "HARDWARE=ascend VLM_GRAPH_MODE=full_decode_only VLM_MEMORY_UTILIZATION=0.7 LAYOUT_SERVER=1".split()
    lines += "LAYOUT_DEVICE=npu:3 LAYOUT_URL=http://vlm:8001".split()
    (tmp_path / ".env").write_text("\n".join(lines))
    local = LocalSettings.load({}, tmp_path / ".env")
    launched = Settings.from_environment(local.values)
    assert launched.graph_mode is None and launched.memory_utilization is None
    assert (local.values["LAYOUT_DEVICE"], local.layout_health) == ("cpu", "http://127.0.0.1:8001/health")


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
