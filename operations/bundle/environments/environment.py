# SPDX-License-Identifier: Apache-2.0
"""One virtual environment: its lock, how `uv pip` installs it, and its stamp. The images use this module too, and a
change here makes their largest layers anew, so it holds no more than they need.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bundle.environments.cuda import without_cuda
from bundle.paths import ENVS_DIR, REQUIREMENTS, ROOT, VALUES

# torch and what only torch brings along: TORCH_CPU_INDEX_URL replaces all of it.
TORCH = re.compile(r"(torch|torchvision|torchaudio|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==")
# A finished environment holds a hash of what it was made from, so that it is made only once.
STAMP = ".made-from"


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


def digest(inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> str:
    """SHA-256 over the inputs' paths and bytes, the settings, the platform, and the place of the checkout.

    The place counts because our own packages are installed editable, by path.
    """
    sha = hashlib.sha256(f"{platform.machine()} {ROOT}\n".encode())
    for path in inputs:
        sha.update(f"{path.name}\n".encode() + path.read_bytes())
    for key, value in sorted((settings or {}).items()):
        sha.update(f"{key}={value}\n".encode())
    return sha.hexdigest()


def is_current(home: Path, inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> bool:
    """Whether the environment at `home` was finished from exactly these inputs."""
    stamp = home / STAMP
    return stamp.is_file() and stamp.read_text().strip() == digest(inputs, settings)


def write_stamp(home: Path, inputs: Iterable[Path], settings: Mapping[str, str] | None = None) -> None:
    """Mark the environment as finished; written last, so an interrupted set-up is repeated."""
    (home / STAMP).write_text(digest(inputs, settings) + "\n")


def clear_stamp(home: Path) -> None:
    """Remove the mark before an environment is changed."""
    (home / STAMP).unlink(missing_ok=True)
