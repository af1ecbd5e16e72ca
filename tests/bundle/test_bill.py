# SPDX-License-Identifier: Apache-2.0
"""Bills of materials: valid CycloneDX, complete, the same for the same packages. tests/images compares real images."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.compose import images
from bundle.image_build import bill as module
from bundle.image_build.bill import bill, component, os_release, python_packages, system_packages, web_libraries
from bundle.offline import bills
from tests.images.bill import valid_bill
from tests.support.paths import ENVIRONMENTS, ROOT

README = ROOT / module.VENDOR


def package(site: Path, name: str, version: str, *lines: str, editable: bool = False) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        "\n".join(("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines))
    )
    if editable:
        (folder / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    """Two environments that share a package, and a link to one of them."""
    for name in ("parser", "supervisor"):
        site = tmp_path / name / "lib/python3.11/site-packages"
        package(site, "Typing_Extensions", "4.1", "License-Expression: PSF-2.0")
        package(site, f"only-{name}", "1", "Classifier: License :: OSI Approved :: MIT License")
    package(tmp_path / "parser/lib/python3.11/site-packages", "docparser", "0.1", editable=True)
    (tmp_path / "vlm").symlink_to("parser")
    return tmp_path


def test_packages_of_all_environments_each_once_with_their_places(environments: Path):
    found = {one["bom-ref"]: one for one in bill("x", "1", python_packages(environments))["components"]}
    assert set(found) == {
        "pkg:pypi/typing-extensions@4.1",
        "pkg:pypi/only-parser@1",
        "pkg:pypi/only-supervisor@1",
        "docparser@0.1",
    }
    shared = found["pkg:pypi/typing-extensions@4.1"]
    assert [one["value"] for one in shared["properties"]] == ["parser", "supervisor"]
    assert shared["licenses"] == [{"expression": "PSF-2.0"}]
    assert found["pkg:pypi/only-parser@1"]["licenses"] == [{"license": {"name": "MIT License"}}]
    own = found["docparser@0.1"]
    assert own["type"] == "application" and "purl" not in own


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)], ids=["tools", "all"])
def test_the_bill_of_this_machine_is_valid_and_complete(tmp_path: Path, every: bool):
    """Real packages, with all that their authors write into licences and names: of one environment, or of all."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/lib").symlink_to(ENVIRONMENTS / "tools/lib")
    environments = ENVIRONMENTS if every else tmp_path
    parts = [*system_packages(os_release()), *python_packages(environments), *web_libraries(README)]
    found = valid_bill(json.dumps(bill("this machine", "1", parts)))
    names = {one["name"] for one in found["components"]}
    frozen = subprocess.run(
        [
            sys.executable,
            "-c",
            "import importlib.metadata as m; print(*{d.name for d in m.distributions()}, sep='\\n')",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    ).stdout.split()
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in frozen} <= names
    assert {"katex", "markdown-it", "dompurify"} <= names
    if Path("/var/lib/dpkg/status").is_file():
        assert {"libc6", "bash"} <= names


def test_the_same_packages_give_the_same_bill():
    parts = [component("library", name, "1", f"pkg:generic/{name}@1") for name in ("b", "a")]
    one, other = bill("x", "1", parts), bill("x", "1", reversed(parts))
    assert json.dumps(one) == json.dumps(other) and one["serialNumber"] != bill("x", "2", parts)["serialNumber"]
    assert "timestamp" not in json.dumps(one)
    valid_bill(json.dumps(one))


def test_an_image_without_environments_has_no_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ENVS_DIR", tmp_path)
    with pytest.raises(module.EnvironmentSetupError, match="holds no environment"):
        module.of_this_image("x", "1")


def test_what_cann_installed_is_named(tmp_path: Path):
    folder = tmp_path / "ascend-toolkit/8.3.RC2/x86_64-linux"
    folder.mkdir(parents=True)
    (folder / "ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=8.3.RC2\narch=x86_64\n"
    )
    (tmp_path / "ascend-toolkit/latest").symlink_to("8.3.RC2")
    (found,) = {one["bom-ref"] for one in module.cann(tmp_path)}
    assert found == "Ascend-cann-toolkit@8.3.RC2"


def test_the_archives_own_bill_names_images_and_weights(tmp_path: Path):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    listed = [(weights, "models/PaddleOCR-VL/model.safetensors"), (weights, "models/PaddleOCR-VL/README.md")]
    listed[1] = (tmp_path / "README.md", listed[1][1])
    found = bills.of_archive({images.vlm("cpu", "0.11.1"): "0" * 64}, listed)
    valid_bill(json.dumps(found))
    kinds = {one["name"]: one["type"] for one in found["components"]}
    assert kinds == {
        "paddleocr-vl/vlm-cpu": "container",
        "models/PaddleOCR-VL/model.safetensors": "machine-learning-model",
    }
    (written,) = bills.write(tmp_path, {"archive": found})
    assert written[1] == "bills/archive.cdx.json" and valid_bill(written[0].read_text()) == found
