# SPDX-License-Identifier: Apache-2.0
"""One virtual environment: its lock, and how `uv pip` installs it. The images use this module too, and a change here
makes their largest layers anew, so it holds no more than they need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bundle.environments.cuda import without_cuda
from bundle.paths import ENVS_DIR, REQUIREMENTS, ROOT, VALUES

# torch and what only torch brings along: TORCH_CPU_INDEX_URL replaces all of it.
TORCH = re.compile(r"(torch|torchvision|torchaudio|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==")


@dataclass(frozen=True)
class Environment:
    """One virtual environment: its lock, which of our packages it runs, and what its files need of the system.

    `libraries` are keys of `LIBRARIES` in `system.py`.
    """

    name: str
    packages: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        return ENVS_DIR / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """Where its packages lie."""
        return self.home / "lib" / "python3.11" / "site-packages"

    @property
    def cuda(self) -> Path:
        """A file that says that NVIDIA's libraries are wanted here: `scripts/setup_env.sh --cuda ENV` makes it."""
        return self.home / ".cuda"

    @property
    def lock(self) -> Path:
        return REQUIREMENTS / f"{self.name}.txt"

    @property
    def inputs(self) -> list[Path]:
        """Every file whose change calls for a new set-up."""
        files = [self.lock, *(ROOT / package / "pyproject.toml" for package in self.packages)]
        return [file for file in files if file.is_file()]


def source_lock(environment: Environment) -> Path:
    """The lock of the vLLM that Dockerfile.ascend builds from source into this environment."""
    return REQUIREMENTS / f"{environment.name.replace('vlm-ascend', 'vllm')}.txt"


def split_entries(lock: str) -> list[str]:
    """Cut a lock into entries: a pin line with the hash lines that follow it. Comments are left out."""
    return [entry for entry in re.split(r"(?m)^(?=\S)", lock) if entry.strip() and not entry.startswith("#")]


def cpu_torch_index(environment: Environment) -> str:
    """The index that the CPU builds of torch are taken from; empty where the plain builds of the lock are installed."""
    return VALUES.get("TORCH_CPU_INDEX_URL", "") if torch_pins(environment) else ""


def torch_pins(environment: Environment) -> list[tuple[str, str]]:
    """Names and versions of torch and its companions in the lock."""
    return re.findall(r"^(torch(?:vision|audio)?)==([\d.]+)", environment.lock.read_text(), re.MULTILINE)


def locked(environment: Environment) -> str:
    """What of the lock is installed by its hashes: all but CUDA's large libraries, if they are not wanted, and all but
    torch where an index of CPU builds is named."""
    text = environment.lock.read_text()
    if cpu_torch_index(environment):
        return "".join(entry for entry in split_entries(text) if not TORCH.match(entry))
    return text if environment.cuda.is_file() else without_cuda(text)


def torch_from_cpu_index(environment: Environment, index: str) -> list[str]:
    """uv arguments that install the `+cpu` builds of the pinned torch versions from `index`.

    Their hashes are not in the lock, which knows the plain builds only; the versions are the same.
    """
    return ["--no-deps", "--index", index, *(f"{name}=={version}+cpu" for name, version in torch_pins(environment))]


def install_plan(environment: Environment, requirements: Path) -> list[tuple[str, list[str]]]:
    """The steps of `uv pip`, as (what it is, arguments), in order. `requirements` is a file with what `locked` returns.

    The first step makes the environment exactly what the file says: a package that left the lock is removed.
    """
    plan = [("packages", ["sync", "--require-hashes", "--only-binary", ":all:", str(requirements)])]
    if index := cpu_torch_index(environment):
        plan.append(("torch (CPU build)", ["install", *torch_from_cpu_index(environment, index)]))
    if environment.packages:
        plan.append((", ".join(environment.packages), own_packages(environment)))
    return plan


def own_packages(environment: Environment) -> list[str]:
    """uv arguments that install our packages by path, so that they are run where they lie."""
    own = [option for package in environment.packages for option in ("-e", str(ROOT / package))]
    return ["install", "--no-deps", "--no-build-isolation", *own]
