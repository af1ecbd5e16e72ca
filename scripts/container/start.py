# SPDX-License-Identifier: Apache-2.0
"""Start the image's service (SERVICE: vlm or parser): check what can be checked first, then become supervisord.

Ends with status 2 and one line when the device, the settings or the weights are wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from container import replicas  # noqa: E402
from container.device_check import DeviceError, check_device  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LOGS = {"vlm": ("vlm", "balancer", "metrics", "watchdog", "guard"), "parser": ("parser", "guard")}
DEFAULTS = {
    "VLM_HOST": "0.0.0.0", "VLM_PORT": "8000", "VLM_REPLICA_PORT": "8100", "METRICS_PORT": "8099",
    "VLM_MODEL_NAME": "PaddleOCR-VL-0.9B", "WATCHDOG_INTERVAL_S": "10", "WATCHDOG_TIMEOUT_S": "30",
    "WATCHDOG_FAILURES": "3", "PARSER_STOP_SECONDS": "20",
}


def prepare_folders(service: str, run_dir: Path) -> None:
    """Folders for run-time files; the logs are links to the container's own output, where supervisord's are anyway."""
    logs = run_dir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name, target in {"supervisord": "/dev/null", **dict.fromkeys(LOGS[service], "/dev/stdout")}.items():
        link = logs / f"{name}.log"
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def supervisor_environment(service: str, env: dict[str, str]) -> dict[str, str]:
    """What config/supervisord.conf and its programs read; what the container's environment says wins."""
    programs = {"vlm": ("vlm", "balancer", "guard"), "parser": ("parser", "guard")}[service]
    own = {"PROGRAMS": " ".join(f"{ROOT}/config/supervisor/{name}.conf" for name in programs), "AUTOSTART": "true",
           "LOG_MAXBYTES": "0", "SUPERVISOR_SOCKET": f"{env['RUN_DIR']}/supervisor.sock"}
    # Compose passes variables that .env leaves out as empty ones.
    return {**DEFAULTS, **{name: value for name, value in env.items() if value}, **own}


def main() -> int:
    env = dict(os.environ)
    service = env.get("SERVICE", "")
    try:
        prepare_folders(service, Path(env["RUN_DIR"]))
        if service == "vlm":
            env["VLM_REPLICAS"] = str(replicas.count(env))
            check_device(env)
        env = supervisor_environment(service, env)
    except (replicas.ReplicaError, DeviceError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if service == "vlm":
        status = subprocess.run([f"{env['ENVS_DIR']}/vlm/bin/python", "-m", "vlm_server", "--check"], env=env,
                                check=False).returncode
        if status:
            return status
    supervisord = f"{env['ENVS_DIR']}/supervisor/bin/supervisord"
    os.execve(supervisord, [supervisord, "-c", str(ROOT / "config/supervisord.conf")], env)


if __name__ == "__main__":
    sys.exit(main())
