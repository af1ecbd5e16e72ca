# SPDX-License-Identifier: Apache-2.0
"""The wheel of vllm-ascend with its kernels: `check WHEEL`, or `pack SOURCES OUTPUT` from a tree that was compiled.

Dockerfile.ascend runs it. `pack` makes a wheel of what upstream's images hold (VLLM_ASCEND_IMAGE): an editable checkout
with the compiled libraries beside the Python files. SOC_VERSION, TORCH_VERSION, VLLM_ASCEND_PACKAGE_VERSION
and VLLM_ASCEND_VERSION, the commit, say what it must be.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import atlas
from tool_errors import EnvironmentSetupError, UsageError, run

# What a worker compares with its device: setup.py's names at 6664a4e and v0.23.0.
DEVICE_TYPES = {"a3": ("_910_93", "A3"), "a2": ("_910B", "A2"), "310p": ("_310P",)}
# The extension, and operators of upstream's own.
COMPILED = ("vllm_ascend/vllm_ascend_C", "vllm_ascend/_cann_ops_custom/vendors/")
# Direct kernels, which v0.23.0's CMakeLists.txt leaves out for a 310P.
KERNELS = {"a3": ("vllm_ascend/libvllm_ascend_kernels.so",), "a2": ("vllm_ascend/libvllm_ascend_kernels.so",)}
LEFT_OUT = ("__pycache__", ".pyc")


def check(wheel: Path, soc: str) -> None:
    """Raise EnvironmentSetupError unless the wheel has all that is compiled, for this chip.

    The build of the operators may end early with status 0: upstream's scripts do so for a chip that they do not know.
    """
    product = atlas.of_soc(soc)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for start in (*COMPILED, *KERNELS.get(product.key, ())):
            if not any(name.startswith(start) for name in names):
                raise EnvironmentSetupError(f"{wheel.name} has no {start}*; the lines above say what was left out")
        info = archive.read("vllm_ascend/_build_info.py").decode()
    found = re.search(r"__device_type__ = '(\w+)'", info)
    if not found or found[1] not in DEVICE_TYPES[product.key]:
        raise EnvironmentSetupError(
            f"{wheel.name} was compiled for {found[1] if found else 'no chip that it names'}; expected "
            f"{' or '.join(DEVICE_TYPES[product.key])} ({soc}): ATLAS and VLLM_ASCEND_IMAGE must be of one kind"
        )


def check_torch(sources: Path, torch: str) -> None:
    """Raise UsageError unless the tree is for the stack's torch."""
    lists = sources / "CMakeLists.txt"
    found = re.search(r"Expected PyTorch version ([\d.]+),", lists.read_text()) if lists.is_file() else None
    if not found or found[1] != torch:
        raise UsageError(
            f"VLLM_ASCEND_IMAGE: its vllm-ascend is for torch {found[1] if found else 'of no version that it names'}; "
            f"expected {torch}, as the stack has it (STACK)"
        )


def check_release(sources: Path, version: str, commit: str) -> None:
    """Raise UsageError for the tree of another release, by the file that upstream's setup.py writes. v0.22.1rc1 and
    v0.24.0rc1 have the torch of v0.23.0 too; they are for another vLLM and another CANN."""
    file = sources / "vllm_ascend/_version.py"
    found = re.search(r"version = '([^']+)'", file.read_text() if file.is_file() else "")
    said = found[1] if found else "no release that it names"
    between = re.search(r"\+g([0-9a-f]{7,})", said)  # built from a commit without a tag
    if said != version and not (between and commit.startswith(between[1])):
        raise UsageError(
            f"VLLM_ASCEND_IMAGE: its vllm-ascend is {said}; expected {version}, commit {commit[:7]}, as the stack has "
            "it (docs/install.md)"
        )


def check_python(sources: Path) -> None:
    """Raise UsageError for an extension of another Python than the image's: upstream's v0.23.0 has 3.12."""
    own = f"cpython-3{sys.version_info.minor}"
    found = [path.name for path in (sources / "vllm_ascend").glob("vllm_ascend_C*.so")]
    if found and not any(own in name for name in found):
        raise UsageError(
            f"VLLM_ASCEND_IMAGE: its extension is {found[0]}, but this image has Python 3.{sys.version_info.minor}; "
            "expected an image with the same Python, or leave VLLM_ASCEND_IMAGE empty, which compiles the kernels"
        )


def entry_points(setup: Path) -> str:
    """What upstream's setup.py gives as `entry_points`, as a wheel has it. Raises UsageError."""
    for node in ast.walk(ast.parse(setup.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "entry_points":
            groups = ast.literal_eval(node.value)
            return "".join("\n".join((f"[{group}]", *lines, "", "")) for group, lines in groups.items())
    raise UsageError(f"{setup} has no entry_points; expected the sources of vllm-ascend")


def files(sources: Path) -> Iterator[tuple[str, bytes]]:
    """The package's files with their names in the wheel."""
    for path in sorted((sources / "vllm_ascend").rglob("*")):
        if path.is_file() and not any(str(path).endswith(end) or end in path.parts for end in LEFT_OUT):
            yield str(path.relative_to(sources)), path.read_bytes()


def pack(sources: Path, output: Path, version: str, torch: str, commit: str) -> Path:
    """Make the wheel; returns its file. Raises UsageError."""
    check_torch(sources, torch)
    check_release(sources, version, commit)
    check_python(sources)
    points = entry_points(sources / "setup.py")
    info = f"vllm_ascend-{version}.dist-info"
    tag = f"cp311-cp311-linux_{os.uname().machine}"
    extra = {
        "METADATA": f"Metadata-Version: 2.1\nName: vllm_ascend\nVersion: {version}\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: paddleocr-vl\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": points,
    }
    output.mkdir(parents=True, exist_ok=True)
    wheel, record = output / f"vllm_ascend-{version}-{tag}.whl", ""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (*files(sources), *((f"{info}/{key}", text.encode()) for key, text in extra.items())):
            archive.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return wheel


def main(words: list[str]) -> None:
    match words:
        case ["chip"]:
            atlas.of_soc(os.environ["SOC_VERSION"]).on(os.environ.get("STACK"))
        case ["check", wheel]:
            check(Path(wheel), os.environ["SOC_VERSION"])
        case ["pack", sources, output]:
            names = ("VLLM_ASCEND_PACKAGE_VERSION", "TORCH_VERSION", "VLLM_ASCEND_VERSION")
            version, torch, commit = (os.environ[name] for name in names)
            check(pack(Path(sources), Path(output), version, torch, commit), os.environ["SOC_VERSION"])
        case _:
            raise UsageError(f"unknown words {' '.join(words)!r}; expected chip, check WHEEL or pack SOURCES OUTPUT")


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
