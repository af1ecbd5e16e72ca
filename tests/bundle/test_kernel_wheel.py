# SPDX-License-Identifier: Apache-2.0
"""The wheel that is packed from upstream's compiled image: a tree of that layout, and what must not pass."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import re
import zipfile
from pathlib import Path

import pytest

import atlas
from bundle.image_build import kernel_wheel
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError, UsageError

POINTS = '{"vllm.platform_plugins": ["ascend = vllm_ascend:register"], "vllm.general_plugins": ["a = b:c", "d = e:f"]}'
TYPES = {"a3": "A3", "a2": "A2", "310p": "_310P"}
COMMIT = "5cb98caaadeff42b5b62b996e34bb2aaa29d20fd"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An editable checkout after its build, as /vllm-workspace/vllm-ascend of upstream's images is. Written, and small:
    the libraries are empty files with the names that upstream's build gives."""
    sources = tmp_path / "vllm-ascend"
    for name, text in {
        "setup.py": f"from setuptools import setup\nsetup(name='vllm_ascend', entry_points={POINTS})\n",
        "CMakeLists.txt": 'message(FATAL_ERROR "Expected PyTorch version 2.10.0, but found ${TORCH_VERSION}")\n',
        "csrc/kernel.cpp": "",
        "vllm_ascend/__init__.py": "",
        # As setuptools_scm writes it.
        "vllm_ascend/_version.py": "__version__ = version = '0.23.0'\n",
        "vllm_ascend/ops/__init__.py": "",
        "vllm_ascend/__pycache__/x.pyc": "",
        "vllm_ascend/_build_info.py": "# Auto-generated file\n__device_type__ = 'A3'\n",
        "vllm_ascend/vllm_ascend_C.cpython-311-aarch64-linux-gnu.so": "",
        "vllm_ascend/libvllm_ascend_kernels.so": "",
        "vllm_ascend/_cann_ops_custom/vendors/customize/op_impl/x.o": "",
    }.items():
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text)
    return sources


def packed(tree: Path) -> Path:
    return kernel_wheel.pack(tree, tree.parent / "dist", "0.23.0", "2.10.0", COMMIT)


def test_the_wheel_is_one_with_upstreams_entry_points(tree: Path, tmp_path: Path):
    wheel = packed(tree)
    kernel_wheel.check(wheel, "ascend910_9391")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    [found] = importlib.metadata.distributions(path=[str(tmp_path / "site")])
    assert (found.metadata["Name"], found.version) == ("vllm_ascend", "0.23.0")
    assert {(point.group, point.name, point.value) for point in found.entry_points} == {
        ("vllm.platform_plugins", "ascend", "vllm_ascend:register"),
        ("vllm.general_plugins", "a", "b:c"),
        ("vllm.general_plugins", "d", "e:f"),
    }
    names = zipfile.ZipFile(wheel).namelist()
    assert "vllm_ascend/ops/__init__.py" in names and not any("csrc" in name or ".pyc" in name for name in names)


def test_the_record_has_the_digest_of_every_file(tree: Path):
    wheel = packed(tree)
    with zipfile.ZipFile(wheel) as archive:
        rows = {
            row[0]: row[1]
            for row in csv.reader(archive.read("vllm_ascend-0.23.0.dist-info/RECORD").decode().splitlines())
        }
        assert set(rows) == set(archive.namelist())
        for name, said in rows.items():
            if not name.endswith("RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                assert said == f"sha256={digest}"


def test_an_image_of_another_stack_is_refused(tree: Path):
    with pytest.raises(UsageError, match=r"VLLM_ASCEND_IMAGE: its vllm-ascend is for torch 2\.10\.0; expected 2\.7\.1"):
        kernel_wheel.pack(tree, tree.parent / "dist", "x", "2.7.1", COMMIT)


@pytest.mark.parametrize("said", ["0.23.0rc1", "0.24.0rc1", "0.23.1.dev3+g0123456ab", ""])
def test_another_release_of_the_same_torch_is_refused(tree: Path, said: str):
    """v0.23.0rc1 is compiled with CANN 9.0.1, v0.24.0rc1 for vLLM 0.24.0 too; both ask for torch 2.10.0."""
    file = tree / "vllm_ascend/_version.py"
    file.write_text(f"__version__ = version = '{said}'\n") if said else file.unlink()
    with pytest.raises(UsageError, match=f"is {re.escape(said or 'no release')}.*; expected 0.23.0, commit 5cb98ca"):
        packed(tree)


def test_an_extension_of_another_python_is_refused(tree: Path):
    """Upstream's image of v0.23.0 has Python 3.12."""
    [library] = (tree / "vllm_ascend").glob("vllm_ascend_C*.so")
    library.rename(library.with_name(library.name.replace("311", "312")))
    with pytest.raises(UsageError, match=r"its extension is vllm_ascend_C\.cpython-312.* has Python 3\.11; expected"):
        packed(tree)


def test_the_commit_itself_without_its_tag_is_taken(tree: Path):
    (tree / "vllm_ascend/_version.py").write_text("__version__ = version = '0.23.1.dev0+g5cb98caaa.d20260801'\n")
    assert packed(tree).is_file()


@pytest.mark.parametrize(
    "name",
    [
        "libvllm_ascend_kernels.so",
        "vllm_ascend_C.cpython-311-aarch64-linux-gnu.so",
        "_cann_ops_custom/vendors/customize/op_impl/x.o",
    ],
)
def test_what_was_not_compiled_is_named(tree: Path, name: str):
    (tree / "vllm_ascend" / name).unlink()
    with pytest.raises(EnvironmentSetupError, match=f"has no vllm_ascend/{name[:12]}"):
        kernel_wheel.check(packed(tree), "ascend910_9391")


@pytest.mark.parametrize("product", atlas.PRODUCTS, ids=atlas.KEYS)
def test_an_image_of_another_chip_is_refused(tree: Path, product: atlas.Product):
    for key, kind in TYPES.items():
        (tree / "vllm_ascend/_build_info.py").write_text(f"__device_type__ = '{kind}'\n")
        if key == product.key:
            kernel_wheel.check(packed(tree), product.soc)
        else:
            with pytest.raises(EnvironmentSetupError, match=f"was compiled for {kind}; expected"):
                kernel_wheel.check(packed(tree), product.soc)


def test_a_310p_has_no_direct_kernels(tree: Path):
    """v0.23.0's CMakeLists.txt leaves them out for it."""
    (tree / "vllm_ascend/_build_info.py").write_text("__device_type__ = '_310P'\n")
    (tree / "vllm_ascend/libvllm_ascend_kernels.so").unlink()
    kernel_wheel.check(packed(tree), "ascend310p1")


@pytest.mark.parametrize("soc", ["910c", "ascend910_9399", "ascend310p3"])
def test_a_chip_that_the_stack_does_not_serve_is_refused_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch, soc: str
):
    script = (ROOT / "operations/bundle/image_build/build_kernels.sh").read_text()
    assert 0 < script.index("kernel_wheel chip") < script.index("uv build")
    monkeypatch.setenv("SOC_VERSION", soc)
    monkeypatch.setenv("STACK", "0.11.1")
    with pytest.raises(UsageError, match="310P" if "310p" in soc else "SOC_VERSION is"):
        kernel_wheel.main(["chip"])
