# SPDX-License-Identifier: Apache-2.0
"""One virtual environment: its locks, and how `uv pip` installs it. What the images need of it, and no more: a change here
makes their largest layers anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .paths import ENVS_DIR, REQUIREMENTS, ROOT, VALUES


@dataclass(frozen=True)
class Environment:
    """One virtual environment: its locks, which of our packages it runs, and how to see that it works.

    `probe` is Python code that loads the native libraries that need something from the system.
    """

    name: str
    packages: tuple[str, ...] = ()
    probe: str = ""

    @property
    def home(self) -> Path:
        return ENVS_DIR / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def lock(self) -> Path:
        return REQUIREMENTS / f"{self.name}.txt"

    @property
    def torch_lock(self) -> Path:
        """The pin file of torch, which may not exist."""
        return REQUIREMENTS / f"torch-{self.name}.txt"

    @property
    def inputs(self) -> list[Path]:
        """Every file whose change calls for a new set-up."""
        files = [self.lock, self.torch_lock, *(ROOT / package / "pyproject.toml" for package in self.packages)]
        return [file for file in files if file.is_file()]


def source_lock(environment: Environment) -> Path:
    """The lock of the vLLM that Dockerfile.ascend builds from source into this environment."""
    return REQUIREMENTS / f"{environment.name.replace('vlm-ascend', 'vllm')}.txt"


def torch_pins(environment: Environment) -> list[tuple[str, str]]:
    """Names and versions of torch and its companions."""
    return re.findall(r"^(torch(?:vision|audio)?)==([\d.]+)", environment.torch_lock.read_text(), re.MULTILINE)


def torch_from_cpu_index(environment: Environment, index: str) -> list[str]:
    """uv arguments that install the `+cpu` builds of the pinned torch versions from `index`.

    Their hashes are not in the locks, which know only the plain builds; the versions are the same.
    """
    return ["--no-deps", "--index", index, *(f"{name}=={version}+cpu" for name, version in torch_pins(environment))]


def install_plan(environment: Environment) -> list[tuple[str, list[str]]]:
    """The steps of `uv pip`, as (what it is, arguments), in order.

    The first makes the environment exactly what the locks say: a package that left them is removed.
    """
    locks = [str(environment.lock)]
    index = VALUES.get("TORCH_CPU_INDEX_URL", "")
    if environment.torch_lock.is_file() and not index:
        locks.append(str(environment.torch_lock))
    plan = [("packages", ["sync", "--require-hashes", "--only-binary", ":all:", *locks])]
    if environment.torch_lock.is_file() and index:
        plan.append(("torch (CPU build)", ["install", *torch_from_cpu_index(environment, index)]))
    if environment.packages:
        plan.append((", ".join(environment.packages), own_packages(environment)))
    return plan


def own_packages(environment: Environment) -> list[str]:
    """uv arguments that install our packages by path, so that they are run where they lie."""
    own = [option for package in environment.packages for option in ("-e", str(ROOT / package))]
    return ["install", "--no-deps", "--no-build-isolation", *own]
