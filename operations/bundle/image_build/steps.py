# SPDX-License-Identifier: Apache-2.0
"""The Python part of an image's build, one step a call: `bootstrap`, `dependencies ENV...`, `further ENV LOCK`,
`source ENV` (vLLM), `own ENV PACKAGE...`.

The Dockerfiles run it. It imports only what changes seldom, since the first steps make layers of gigabytes;
.dockerignore lists those files. Packages come from /wheels where the build has such a context, else from the index
that pip is configured for.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from bundle.environments import cuda, vllm_cpu
from bundle.environments.environment import Environment, install_plan, locked, own_packages, source_lock, torch_pins
from bundle.environments.uv import ensure_uv, pip_command, registry_environment
from bundle.paths import ENVS_DIR, ROOT
from bundle.progress import step
from tool_errors import RESUMABLE, EnvironmentSetupError, UsageError, run

WHEELS = Path("/wheels")
CA_BUNDLE = Path("/run/secrets/ca_bundle")
UV_CACHE = ENVS_DIR / ".uv-cache"
# Environment -> modules that are imported at the end of the build, which shows that no system library is missing.
# What the Ascend environments load, load_kernels.sh has tried when this runs.
IMPORTS = {
    "vlm": ("vllm", "vllm._C"),
    "vlm-0.23": ("vllm", "vllm._C"),
    "parser": ("cv2",),
    "corpus": ("cv2", "ray.data"),
}


def use_site_settings() -> None:
    """Point pip and uv at the wheels and the certificates that this build was given."""
    if any(WHEELS.glob("*.whl")):
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
    if CA_BUNDLE.is_file() and CA_BUNDLE.stat().st_size:
        os.environ |= {"PIP_CERT": str(CA_BUNDLE), "SSL_CERT_FILE": str(CA_BUNDLE)}
    # The cache lies in the layer, so that files are linked and not copied; each step removes it at its end.
    # Bytecode is compiled while building, because a read-only container cannot keep any.
    os.environ |= {"UV_COMPILE_BYTECODE": "1", "UV_CACHE_DIR": str(UV_CACHE)}


def pip(environment: Environment, what: str, arguments: list[str]) -> None:
    """Run one `uv pip` command with its output shown; raises EnvironmentSetupError."""
    command = pip_command(environment.python, arguments)
    with step(f"{environment.name}: {what}"):
        if subprocess.run(command, env=registry_environment(), check=False).returncode:
            raise EnvironmentSetupError(f"{environment.name}: {what} could not be installed")


def dependencies(environment: Environment) -> None:
    """Make the environment from its locks, without the large libraries of CUDA (decision 0406).

    An environment of the VLM is also found as `vlm`, whatever its stack.
    """
    vllm_cpu.check_libc(environment.name)
    command = [str(ensure_uv()), "venv", "--python", sys.executable, str(environment.home)]
    subprocess.run(command, env=registry_environment(), check=True)
    install(environment)
    if torch_pins(environment):
        cuda.write(environment.site_packages)
    vllm_cpu.write_name(environment.site_packages)
    link = ENVS_DIR / "vlm"
    if environment.name.startswith("vlm") and not link.exists():
        link.symlink_to(environment.name)


def further(environment: Environment, other: Environment) -> None:
    """Bring an environment that is there to the lock of another one, under whose name it is found too.

    That lock contains its own (tests/bundle/test_locks.py), so that only what is further is installed.
    """
    other.home.symlink_to(environment.home.name)
    install(other)


def install(environment: Environment) -> None:
    """Install what the environment's lock names, and nothing else."""
    requirements = environment.home / "requirements.txt"
    requirements.write_text(locked(environment))
    for what, arguments in install_plan(environment, requirements):
        pip(environment, what, arguments)


def source(environment: Environment) -> None:
    """vLLM from its source distribution, for a device whose kernels come from elsewhere (VLLM_TARGET_DEVICE=empty)."""
    # torch would load torch_npu, and that the driver, which no build has.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    lock = source_lock(environment)
    found = re.search(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)
    if found is None:
        raise EnvironmentSetupError(f"{lock} names no package; expected a line NAME==VERSION")
    name = found[1]
    pip(
        environment,
        f"{name} from source",
        ["install", "--no-deps", "--no-build-isolation", "--no-binary", name, "--require-hashes", "-r", str(lock)],
    )


def own(environment: Environment) -> None:
    """Install our packages, which lie in the image already, and compile them; then import the modules of `IMPORTS`.

    What runs beside the service (`container`) is put on the path of the environment `supervisor` and of no other.
    """
    pip(environment, ", ".join(environment.packages), own_packages(environment))
    path = Environment("supervisor").site_packages / "paddleocr-vl.pth"
    path.write_text(f"{ROOT}/operations\n{ROOT}/common\n")
    folders = [str(ROOT / name) for name in (*environment.packages, "operations/container")]
    subprocess.run([str(environment.python), "-m", "compileall", "-q", *folders], check=True)
    for module in IMPORTS.get(environment.name, ()):
        if subprocess.run([str(environment.python), "-c", f"import {module}"], check=False).returncode:
            raise EnvironmentSetupError(f"{environment.name}: {module} cannot be imported; the lines above say why")


def open_to_all(folder: Path) -> None:
    """Let every user read what was copied into the image: under a umask of 077, as hardened systems have it, a checkout
    is its owner's alone, and COPY keeps that."""
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = mode | 0o444 | (0o111 if path.is_dir() or mode & 0o100 else 0)
        if wanted != mode:
            try:
                path.chmod(wanted)
            except OSError as error:  # a folder that is only mounted for this step
                if error.errno != errno.EROFS:
                    raise


def do(words: list[str]) -> None:
    """Do one step of an image's build. Raises ToolError."""
    use_site_settings()
    match words:
        case ["bootstrap"]:
            ensure_uv()
        case ["dependencies", *names] if names:
            for name in names:
                dependencies(Environment(name))
        case ["further", name, other]:
            further(Environment(name), Environment(other))
        case ["source", name]:
            source(Environment(name))
        case ["own", name, *packages] if packages:
            own(Environment(name, packages=("common", *packages)))
            open_to_all(ROOT)
        case _:
            raise UsageError(
                f"unknown words {' '.join(words)!r}; expected bootstrap, dependencies ENV..., further ENV LOCK, "
                "source ENV or own ENV PACKAGE..."
            )
    shutil.rmtree(UV_CACHE, ignore_errors=True)


def main(words: list[str]) -> int:
    return run(lambda: do(words), RESUMABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
