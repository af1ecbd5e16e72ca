# SPDX-License-Identifier: Apache-2.0
"""The folder of wheels: what it must hold on each platform, and what counts as there."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bundle import wheels
from bundle.environments import uv
from bundle.environments.environment import source_lock
from bundle.environments.setup import ENVIRONMENTS
from tests.support.certificates import speak_https
from tests.support.paths import ROOT
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tests.support.system_packages import needs
from tool_errors import EnvironmentSetupError, UsageError

REQUIREMENTS = ROOT / "config/requirements"


@pytest.fixture(scope="module", autouse=True)
def bootstrap():
    uv.ensure_uv()


def names(locks: list[Path], machine: str) -> set[str]:
    return {pin.requirement.partition("==")[0] for pin in wheels.read_pins(locks, machine)}


@pytest.mark.parametrize("environment", ["vlm", "vlm-ascend", "vlm-ascend-0.23"])
def test_cuda_libraries_are_for_x86_only(environment: str):
    locks = [ENVIRONMENTS[environment].lock]
    x86, arm = names(locks, "x86_64"), names(locks, "aarch64")
    assert {"torch", "transformers"} <= x86 & arm
    assert any(name.startswith("nvidia-") for name in x86) and not any(name.startswith("nvidia-") for name in arm)
    assert "triton" not in x86 | arm and ("torch-npu" in x86 & arm) is ("ascend" in environment)


@pytest.mark.parametrize("stack", ["0.11.1", "0.23.0"])
@pytest.mark.parametrize("hardware", ["cpu", "ascend", ""])
def test_without_names_it_is_what_compose_builds(hardware: str, stack: str):
    """Of another environment a build with WHEELS_DIR would find no wheels, and it asks no index."""
    services = yaml.safe_load((ROOT / f"config/stacks/{stack}.yaml").read_text())["services"]
    wanted = services["vlm-cpu" if hardware == "cpu" else "vlm-a3"]["build"]["args"]["VLM_ENVIRONMENT"]
    assert wheels.of_images({"HARDWARE": hardware, "STACK": stack}) == ["supervisor", wanted, "parser"]
    with pytest.raises(UsageError, match="STACK is '0.12.0'; expected one of 0.11.1, 0.23.0"):
        wheels.of_images({"STACK": "0.12.0"})
    assert wheels.of_images({"STACK": stack})[1] == services["vlm-a2"]["build"]["args"]["VLM_ENVIRONMENT"]


@pytest.mark.parametrize(
    ("cuda", "other_torch", "expected"),
    [
        (True, False, {"torch", "torchvision", "nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12", "numpy"}),
        (False, False, {"torch", "torchvision", "nvidia-cuda-runtime-cu12", "numpy"}),
        (True, True, {"numpy"}),
        (False, True, {"numpy"}),
    ],
)
def test_what_is_not_installed_is_not_fetched(cuda: bool, other_torch: bool, expected: set[str]):
    every = ("torch", "torchvision", "nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12", "numpy")
    pins = wheels.wanted([wheels.Pin(f"{name}==1", frozenset()) for name in every], cuda=cuda, other_torch=other_torch)
    assert {pin.requirement.partition("==")[0] for pin in pins} == expected


def test_a_pin_has_all_the_hashes_of_its_lock(tmp_path: Path):
    lock = tmp_path / "a.txt"
    lock.write_text(
        f"# c\na==1 ; platform_machine == 'x86_64' \\\n    --hash=sha256:{'1' * 64} \\\n"
        f"    --hash=sha256:{'2' * 64}\nb==2 \\\n    --hash=sha256:{'3' * 64}\n"
    )
    assert wheels.read_pins([lock, lock], "aarch64") == [wheels.Pin("b==2", frozenset(["3" * 64]))]
    assert wheels.read_pins([lock], "x86_64")[0] == wheels.Pin("a==1", frozenset(["1" * 64, "2" * 64]))


def test_every_python_311_finds_its_file(tmp_path: Path):
    lock = tmp_path / "a.txt"
    lock.write_text(
        "".join(
            f"a=={version} ; python_full_version {test} '3.11.5' \\\n    --hash=sha256:{version * 64}\n"
            for version, test in (("1", "<"), ("2", ">="))
        )
    )
    assert [pin.requirement for pin in wheels.read_pins([lock], "x86_64")] == ["a==1", "a==2"]


def test_a_half_written_wheel_does_not_count(tmp_path: Path):
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"whole")
    assert wheels.present(tmp_path) == {hashlib.sha256(b"whole").hexdigest(): "a-1-py3-none-any.whl"}
    assert hashlib.sha256(b"whole, then more").hexdigest() not in wheels.present(tmp_path)


class SiteIndex(SimulatedServer):
    """A site's index by https, with a login for the pages. The file lies on another host, which is the same server by
    its other name, and must not be shown the login."""

    certificate: Path

    def handler(self) -> type[JsonHandler]:
        index = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                login = self.headers["Authorization"]
                if self.headers["Host"].startswith("localhost"):
                    self.text(*((200, "sources") if login is None else (400, "a login for another host")))
                elif login == "Basic " + base64.b64encode(LOGIN.encode()).decode():
                    self.text(200, f'<a href="https://localhost:{index.port}{self.path}a-1.tar.gz#sha256=0">a</a>')
                else:
                    self.text(401, "", WWW_Authenticate='Basic realm="site"')

        return Handler


LOGIN = "user:p@ss/word"


def clear_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what this machine says of indexes."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_")) or name == "SSL_CERT_FILE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    uv.registry_environment.cache_clear()


@pytest.fixture
def site_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SiteIndex]:
    """What the machine's pip asks."""
    index = SiteIndex()
    index.certificate = speak_https(index, tmp_path)
    clear_settings(monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", f"https://user:p%40ss%2Fword@127.0.0.1:{index.port}/simple")
    yield index
    uv.registry_environment.cache_clear()
    index.close()


@pytest.mark.server
@needs("openssl")
@pytest.mark.parametrize("trusted", [False, True], ids=["cert", "trusted-host"])
def test_a_source_distribution_is_taken_from_the_index_and_checked(
    site_index: SiteIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
):
    """As pip and uv would: with the login of the index's address, and what the site says of certificates."""
    name, value = ("TRUSTED_HOST", "127.0.0.1 localhost") if trusted else ("CERT", str(site_index.certificate))
    monkeypatch.setenv(f"PIP_{name}", value)
    lock = tmp_path / "a.txt"
    lock.write_text(f"a==1 \\\n    --hash=sha256:{hashlib.sha256(b'sources').hexdigest()}\n")
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setattr(wheels, "shown", str)
    wheels.download_source(lock, folder)
    assert (folder / "a-1.tar.gz").read_bytes() == b"sources"
    lock.write_text(f"a==1 \\\n    --hash=sha256:{'4' * 64}\n")
    (folder / "a-1.tar.gz").unlink()
    with pytest.raises(EnvironmentSetupError, match="is not the file"):
        wheels.download_source(lock, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.server
@needs("openssl")
@pytest.mark.parametrize(
    ("login", "trusted", "why"),
    [
        ("user:s3cret", True, "HTTP Error 401"),
        ("user:s3cret", False, "CERTIFICATE_VERIFY_FAILED"),
        ("s3cret", True, "401"),
    ],
    ids=["login", "certificate", "user alone"],
)
def test_an_index_that_refuses_is_one_line_without_the_login(
    site_index: SiteIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str, trusted: bool, why: str
):
    monkeypatch.setenv("PIP_INDEX_URL", f"https://{login}@127.0.0.1:{site_index.port}/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1" if trusted else "")
    (tmp_path / "a.txt").write_text(f"a==1 \\\n    --hash=sha256:{'4' * 64}\n")
    with pytest.raises(EnvironmentSetupError, match=rf"a-1\.tar\.gz: the package index .*{why}") as refused:
        wheels.download_source(tmp_path / "a.txt", tmp_path)
    assert "s3cret" not in str(refused.value)


class LargeIndex(SimulatedServer):
    """An index with a login for its pages and its files, and one wheel among many; `asked` are the paths."""

    def __init__(self, wheel: bytes) -> None:
        self.wheel, self.asked = wheel, list[str]()
        super().__init__()

    def handler(self) -> type[JsonHandler]:
        index = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                if self.headers["Authorization"] != "Basic " + base64.b64encode(LOGIN.encode()).decode():
                    self.text(401, "", WWW_Authenticate='Basic realm="site"')
                    return
                index.asked.append(self.path)
                if self.path.endswith(".whl"):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(index.wheel)))
                    self.end_headers()
                    self.wfile.write(index.wheel)
                    return
                names = [f"a-{version}-py3-none-any.whl" for version in range(1, 9)]
                names += ["a-1-cp311-cp311-win_amd64.whl", "a-1-cp39-cp39-manylinux_2_17_x86_64.whl"]
                digest = hashlib.sha256(index.wheel).hexdigest()
                page = "".join(f'<a href="/files/{name}#sha256={digest}">{name}</a>' for name in names)
                self.text(200, page, Content_Type="text/html")

        return Handler


@pytest.mark.server
def test_wheels_are_found_by_uv_and_fetched_by_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the login of the index's address, and only from the files that fit; pip asks no page."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("a-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1\n")
        file.writestr("a-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("a-1.dist-info/RECORD", "")
    index = LargeIndex(wheel.getvalue())
    clear_settings(monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://user:p%40ss%2Fword@127.0.0.1:{index.port}/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setattr(wheels, "shown", str)
    pin = wheels.Pin("a==1", frozenset([hashlib.sha256(index.wheel).hexdigest()]))
    try:
        wheels.download([pin], tmp_path, "x86_64", tmp_path / "log")
        assert wheels.present(tmp_path) == {next(iter(pin.digests)): "a-1-py3-none-any.whl"}
        assert sorted(set(index.asked)) == ["/files/a-1-py3-none-any.whl", "/simple/a/"], index.asked
        assert index.asked.count("/simple/a/") == 1, "pip reads the page of links instead"
        with pytest.raises(EnvironmentSetupError, match=r"wheels 1 to 1 of 1: .*a==20"):
            wheels.download([wheels.Pin("a==20", pin.digests)], tmp_path, "x86_64", tmp_path / "log")
    finally:
        uv.registry_environment.cache_clear()
        index.close()


def test_every_ascend_environment_has_its_vllm():
    for name, version in (("vlm-ascend", "0.11.1"), ("vlm-ascend-0.23", "0.23.0")):
        pins = wheels.read_pins([source_lock(ENVIRONMENTS[name])], "aarch64")
        assert [pin.requirement for pin in pins] == [f"vllm=={version}"]


def test_two_versions_of_a_package_are_fetched_apart():
    pins = [wheels.Pin(f"{name}=={version}", frozenset()) for version in (1, 2, 3) for name in "abcdefgh"]
    groups = wheels.batches(pins)
    assert sorted(pin.requirement for group in groups for pin in group) == sorted(pin.requirement for pin in pins)
    for group in groups:
        assert len(group) <= wheels.CHUNK
        assert len({pin.requirement.partition("==")[0] for pin in group}) == len(group)
