# SPDX-License-Identifier: Apache-2.0
"""Environments inside an image, in steps: `bootstrap`, `dependencies ENV...`, `source ENV...` (vLLM), `own ENV...`.

Run by the Dockerfiles. Wheels come from /wheels where the build was given such a context, else from the registry that
pip is configured for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .environments import Environment, chosen, install_plan, own_packages, source_lock
from .errors import BundleError, EnvironmentSetupError, exit_status
from .paths import ENVS_DIR, ROOT
from .progress import step
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
    """Make the environment from its locks, with bytecode: a read-only container cannot write any later."""
    # In the layer itself, so that files are linked and not copied; it is gone when the layer is done.
    os.environ |= {"UV_COMPILE_BYTECODE": "1", "UV_CACHE_DIR": str(ENVS_DIR / ".uv-cache")}
    command = [str(ensure_uv()), "venv", "--python", sys.executable, str(environment.home)]
    subprocess.run(command, env=registry_environment(), check=True)
    own = own_packages(environment)
    for what, arguments in install_plan(environment):
        if arguments != own:
            pip(environment, what, arguments)
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


def own(environment: Environment) -> None:
    """Install our packages, which lie in the image already, and compile them; then load what needs system libraries."""
    if environment.packages:
        os.environ["UV_CACHE_DIR"] = str(ENVS_DIR / ".uv-cache")
        pip(environment, ", ".join(environment.packages), own_packages(environment))
        shutil.rmtree(ENVS_DIR / ".uv-cache", ignore_errors=True)
    folders = [str(ROOT / name) for name in (*environment.packages, "scripts")]
    subprocess.run([str(environment.python), "-m", "compileall", "-q", *folders], check=True)
    if environment.completes_itself:
        subprocess.run([str(environment.python), "-c", f"import {environment.completes_itself}"], check=True)
    if environment.probe:
        subprocess.run([str(environment.python), "-c", environment.probe], check=True)


STEPS = {"dependencies": dependencies, "source": source, "own": own}


def main(words: list[str]) -> int:
    use_site_settings()
    try:
        if words[:1] == ["bootstrap"]:
            ensure_uv()
            return 0
        for environment in chosen(words[1:]):
            STEPS[words[0]](environment)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
