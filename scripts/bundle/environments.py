# SPDX-License-Identifier: Apache-2.0
"""Make the virtual environments from their locks: python -m bundle.environments ENV..."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from .environment import Environment, install_plan
from .errors import EnvironmentSetupError, UsageError, outcome
from .paths import ROOT, RUN_DIR, VALUES, shown
from .progress import run_logged, say, step
from .stamp import clear_stamp, is_current, write_stamp
from .uv import ensure_uv, registry_environment


# Importing the package would take many times as long as loading its kernels alone.
VLLM_KERNELS = """
import ctypes, importlib.util, pathlib, torch
for kernels in pathlib.Path(importlib.util.find_spec("vllm").origin).parent.glob("_C*.so"):
    ctypes.CDLL(str(kernels))
"""

ENVIRONMENTS = {env.name: env for env in (
    Environment("tools"),
    Environment("supervisor"),
    Environment("vlm", packages=("model_code",), probe=VLLM_KERNELS),
    Environment("vlm-0.12", packages=("model_code",), probe=VLLM_KERNELS),
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


def is_ready(environment: Environment) -> bool:
    """Whether nothing is left to do for this environment."""
    return environment.python.is_file() and is_current(environment.home, environment.inputs, settings_of(environment))


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


def set_up_all(names: list[str]) -> None:
    for environment in chosen(names):
        set_up(environment)
        say(f"environment {environment.name}: ready in {shown(environment.home)}")


def main(names: list[str]) -> int:
    if names in (["-h"], ["--help"]):
        print(f"usage: scripts/setup_env.sh {'|'.join(ENVIRONMENTS)} ...\n"
              "Makes each environment under ENVS_DIR (default .venvs) from config/requirements; safe to run again.")
        return 0
    return outcome(lambda: set_up_all(names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
