# SPDX-License-Identifier: Apache-2.0
"""Settings of local mode: the environment, then the file .env, then the defaults of .env.example."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import declared_settings
import stacks
from bundle import envfile
from bundle.paths import ENV_FILE, ENVS_DIR, ROOT, RUN_DIR
from tool_errors import UsageError


@dataclass(frozen=True)
class LocalSettings:
    """The settings of local mode; `values` is the environment that the services get."""

    vlm_host: str
    vlm_port: int
    parser_host: str
    parser_port: int
    ready_timeout: float
    values: Mapping[str, str]

    @classmethod
    def load(cls, env: Mapping[str, str], env_file: Path = ENV_FILE) -> LocalSettings:
        """Merge the file and the environment; raises UsageError for a value that cannot be used, or an unknown name."""
        merged = {**envfile.read(env_file, env), **env}
        declared_settings.refuse_unknown(merged)
        vlm_port, parser_port = (
            declared_settings.port(merged, "VLM_PORT"),
            declared_settings.port(merged, "PARSER_PORT"),
        )
        if vlm_port == parser_port:
            raise UsageError(f"VLM_PORT and PARSER_PORT are both {vlm_port}; expected two different ports")
        layout = layout_server(merged, taken={vlm_port, parser_port})
        vlm_host = merged.get("VLM_HOST") or "127.0.0.1"
        parser_host = merged.get("PARSER_BIND") or "127.0.0.1"
        timeout = declared_settings.whole(merged, "READY_TIMEOUT")
        # The locks of local mode are those of the CPU build, whatever .env says for compose. What a CPU refuses is not
        # passed on, as config/compose/cpu.yaml does not.
        stack = stacks.STACKS[declared_settings.choice(merged, "STACK")]
        own = {
            "HARDWARE": "cpu",
            "STACK": stack.key,
            "VLM_ENVIRONMENT": stack.cpu,
            "VLM_GRAPH_MODE": "",
            "VLM_MEMORY_UTILIZATION": "",
            "SETTINGS_PLACE": ".env of the checkout, or the environment of run_demo.sh",
            "VLM_HOST": vlm_host,
            "VLM_PORT": str(vlm_port),
            "PARSER_BIND": parser_host,
            "PARSER_PORT": str(parser_port),
            "VLM_URL": merged.get("VLM_URL") or f"http://{reachable(vlm_host)}:{vlm_port}/v1",
            "MODELS_DIR": str((ROOT / (merged.get("MODELS_DIR") or "models")).resolve()),
            "ENVS_DIR": str(ENVS_DIR),
            "OPERATIONS_PYTHON": str(ENVS_DIR / "tools/bin/python"),
            "RUN_DIR": str(RUN_DIR),
            "PARSER_DATA_DIR": merged.get("PARSER_DATA_DIR") or str(RUN_DIR / "data"),
            # Of a program's log supervisord expands the path twice.
            "LOG_DIR": str(RUN_DIR / "logs").replace("%", "%%"),
            "SUPERVISOR_SOCKET": str(socket_path(RUN_DIR)),
            # What config/supervisord.conf reads: both services, started one by one, logging to files. The names are
            # relative to it, because supervisord takes a blank for the end of a name.
            "PROGRAMS": " ".join(f"supervisor/{name}.conf" for name in ("vlm", *layout, "parser")),
            "AUTOSTART": "false",
            "START_SECONDS": "3",
            "LOG_MAXBYTES": "20MB",
            "PARSER_STOP_SECONDS": "20",
            # Without a balancer in front there is one replica, on VLM_PORT itself.
            "VLM_REPLICAS": "1",
            "VLM_REPLICAS_PER_DIE": "1",
            "VLM_REPLICA_PORT": "",
        }
        values = {**merged, **layout.get("layout", {}), **own}
        values.pop("PYTHONPATH", None)
        return cls(vlm_host, vlm_port, parser_host, parser_port, float(timeout), values)

    @property
    def programs(self) -> tuple[str, ...]:
        """The services in the order in which they are started."""
        return (
            ("vlm", "layout", "parser") if declared_settings.flag(self.values, "LAYOUT_SERVER") else ("vlm", "parser")
        )

    @property
    def layout_health(self) -> str:
        return f"{self.values['LAYOUT_URL']}/health"

    @property
    def vlm_health(self) -> str:
        return f"http://{reachable(self.vlm_host)}:{self.vlm_port}/health"

    @property
    def parser_url(self) -> str:
        return f"http://{reachable(self.parser_host)}:{self.parser_port}"

    @property
    def identity(self) -> dict[str, str]:
        """The settings that must agree before services that already run are used again."""
        names = (
            *("VLM_HOST", "VLM_PORT", "PARSER_BIND", "PARSER_PORT", "MODELS_DIR", "VLM_MODEL", "ENVS_DIR"),
            "STACK",
            *("LAYOUT_SERVER", "LAYOUT_DEVICE", "LAYOUT_URL"),
        )
        return {name: self.values.get(name, "") for name in names}


def layout_server(values: Mapping[str, str], taken: set[int]) -> dict[str, dict[str, str]]:
    """The program `layout` with what it and the parser get, where LAYOUT_SERVER asks for it: the CPU and an address of
    this machine, whatever .env says for compose. Raises UsageError."""
    if not declared_settings.flag(values, "LAYOUT_SERVER"):
        return {}
    if (number := declared_settings.port(values, "LAYOUT_PORT")) in taken:
        raise UsageError(f"LAYOUT_PORT is {number}, which VLM_PORT or PARSER_PORT is too; expected another one")
    own = {"LAYOUT_HOST": "127.0.0.1", "LAYOUT_PORT": str(number), "LAYOUT_DEVICE": "cpu"}
    return {"layout": {**own, "LAYOUT_URL": f"http://127.0.0.1:{number}"}}


def reachable(host: str) -> str:
    """Return the address at which this machine reaches a service that is bound to `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)


def socket_path(run_dir: Path) -> Path:
    """Return the socket that supervisord listens on.

    A Unix socket's path is limited to 107 bytes, which a deep checkout can exceed.
    """
    path = run_dir / "supervisor.sock"
    # supervisord first makes a socket whose name is longer by its process id, and expands what follows a percent sign.
    if len(os.fsencode(path)) <= 95 and "%" not in str(path):
        return path
    return Path("/tmp") / f"paddleocr-vl-{os.getuid()}-{zlib.crc32(os.fsencode(run_dir)):08x}.sock"
