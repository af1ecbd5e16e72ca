# SPDX-License-Identifier: Apache-2.0
"""Make the virtual environments from their locks: scripts/setup_env.sh ENV..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bundle.environments import cuda, system, vllm_cpu
from bundle.environments.environment import (
    Environment,
    clear_stamp,
    install_plan,
    is_current,
    locked,
    torch_pins,
    write_stamp,
)
from bundle.environments.uv import ensure_uv, pip_command, registry_environment
from bundle.paths import ROOT, RUN_DIR, VALUES, shown
from bundle.progress import run_logged, say
from tool_errors import RESUMABLE, EnvironmentSetupError, UsageError, run

# Stands in the place of the package of that name, for PaddleX.
OPENCV = "parser/opencv_contrib_python"

# vLLM's kernels need the first, torchaudio for aarch64 the second.
VLLM = ("libnuma.so.1", "libgomp.so.1")

ENVIRONMENTS = {
    env.name: env
    for env in (
        Environment("tools", packages=("common", "operations", "model_code")),
        Environment("supervisor"),
        Environment("vlm", packages=("common", "model_code"), libraries=VLLM),
        Environment("vlm-0.23", packages=("common", "model_code"), libraries=VLLM),
        # torch_npu needs CANN's libraries, which the tests simulate.
        Environment("npu", packages=("common", "model_code")),
        Environment("npu-0.23", packages=("common", "model_code")),
        # For Dockerfile.ascend. Without an NPU they can be made, but not imported.
        Environment("vlm-ascend", packages=("common", "model_code")),
        Environment("vlm-ascend-0.23", packages=("common", "model_code")),
        Environment("parser", packages=("common", "parser", OPENCV), libraries=("libgomp.so.1",)),
        Environment("api", packages=(OPENCV,)),
        Environment("fuzz"),
        Environment("s3"),
        Environment("browser"),
        # The batch tool writes tables with the parser's own code (docparser.convert), which needs nothing of Paddle.
        Environment("client", packages=("common", "operations", "parser")),
        # A corpus is parsed by the parser's own page work, on every node of a Ray cluster.
        Environment("corpus", packages=("common", "operations", "parser", OPENCV), libraries=("libgomp.so.1",)),
        Environment("reference", packages=("common", "model_code")),
    )
}


def settings_of(environment: Environment) -> dict[str, str]:
    """What decides how an environment is made, apart from files: the index that torch comes from, whether CUDA's
    libraries are wanted, and the names of our packages, which an editable install maps when it is made."""
    modules = (path for package in environment.packages for path in (ROOT / package).glob("*/__init__.py"))
    found = sorted(path.parent.name for path in modules)
    return {
        "TORCH_CPU_INDEX_URL": VALUES.get("TORCH_CPU_INDEX_URL", ""),
        "cuda": str(environment.cuda.is_file()),
        "packages": " ".join(found),
    }


def python_of(name: str, what: str = "") -> Path:
    """The Python of an environment that must be there. Raises EnvironmentSetupError, which begins with `what`."""
    python = ENVIRONMENTS[name].python
    if not python.is_file():
        raise EnvironmentSetupError(
            f"{what}the environment {name} is not there ({shown(python)}); make it with scripts/setup_env.sh {name}"
        )
    return python


def is_ready(environment: Environment) -> bool:
    """Whether nothing is left to do for this environment."""
    return environment.python.is_file() and is_current(environment.home, environment.inputs, settings_of(environment))


def set_up(environment: Environment) -> None:
    """Bring one environment up to date with its lock; does nothing when it already is.

    An interrupted run leaves no stamp, and the next run goes on from what is installed.
    Raises EnvironmentSetupError, which names the log, when a step fails.
    """
    if is_ready(environment):
        return
    if not environment.lock.is_file():
        raise EnvironmentSetupError(f"{shown(environment.lock)} is missing; run scripts/lock_requirements.sh")
    system.ensure([environment])
    uv, env = str(ensure_uv()), registry_environment()
    log = RUN_DIR / "logs" / f"setup-{environment.name}.log"
    if not environment.python.is_file():
        command = [uv, "venv", "--python", sys.executable, "--allow-existing", str(environment.home)]
        if run_logged(command, log, f"environment {environment.name}: making it", env):
            raise EnvironmentSetupError(f"environment {environment.name}: {tail(log)} (log: {shown(log)})")
    clear_stamp(environment.home)
    cuda.remove(environment.site_packages)
    requirements = environment.home / "requirements.txt"
    requirements.write_text(locked(environment))
    for what, arguments in install_plan(environment, requirements):
        command = pip_command(environment.python, arguments)
        if run_logged(command, log, f"environment {environment.name}: installing {what}", env):
            raise EnvironmentSetupError(f"environment {environment.name}: {tail(log)} (log: {shown(log)})")
    if torch_pins(environment) and not environment.cuda.is_file():
        cuda.write(environment.site_packages)
    vllm_cpu.write_name(environment.site_packages)
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


def set_up_all(names: list[str], *, with_cuda: bool, install: bool) -> None:
    environments = chosen(names)
    system.ensure(environments, install=install)
    for environment in environments:
        if with_cuda:
            if not torch_pins(environment):
                raise UsageError(
                    f"the environment {environment.name} has no torch, the only part that uses CUDA; leave out --cuda"
                )
            environment.home.mkdir(parents=True, exist_ok=True)
            environment.cuda.touch()
        set_up(environment)
        say(f"environment {environment.name}: ready in {shown(environment.home)}")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/setup_env.sh", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cuda",
        action="store_true",
        help="with NVIDIA's libraries, for a GPU (4 GB more; an environment keeps them until its folder is removed)",
    )
    parser.add_argument("--no-install", action="store_true", help="install no system packages, say what is missing")
    parser.add_argument("environments", nargs="*", metavar="ENV", help=", ".join(ENVIRONMENTS))
    options = parser.parse_args(words)
    return run(
        lambda: set_up_all(options.environments, with_cuda=options.cuda, install=not options.no_install), RESUMABLE
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
