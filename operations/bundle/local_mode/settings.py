# SPDX-License-Identifier: Apache-2.0
"""Settings of local mode: what the operator says, and what is fixed without containers."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import declared_settings
import stacks
from bundle.paths import ENVS_DIR, ROOT, RUN_DIR
from bundle.ports import reachable
from declared_settings.deployment import BUILDS, CORPUS, PARSER_CONTAINER

# Of all settings those that no service of local mode reads.
UNREAD = {"READY_TIMEOUT", *(setting.name for setting in (*PARSER_CONTAINER, *CORPUS, *BUILDS))}


@dataclass(frozen=True)
class LocalSettings:
    """`values` is the environment that the services get."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, said: Mapping[str, str]) -> LocalSettings:
        """From .env and the environment (`bundle.paths.VALUES`); raises UsageError for a value that cannot be used, or
        an unknown name."""
        declared_settings.refuse_unknown(said)
        vlm_host = declared_settings.text(said, "VLM_HOST")
        vlm_port, parser_port = (declared_settings.port(said, name) for name in ("VLM_PORT", "PARSER_PORT"))
        layout = layout_server(said)
        # The locks of local mode are those of the CPU build, whatever .env says for compose. What a CPU refuses is not
        # passed on, as config/compose/cpu.yaml does not.
        stack = stacks.STACKS[declared_settings.choice(said, "STACK")]
        own = {
            "HARDWARE": "cpu",
            "STACK": stack.key,
            "VLM_ENVIRONMENT": stack.cpu,
            "VLM_GRAPH_MODE": "",
            "VLM_MEMORY_UTILIZATION": "",
            "SETTINGS_PLACE": ".env of the checkout, or the environment of run_demo.sh",
            "VLM_HOST": vlm_host,
            "VLM_PORT": str(vlm_port),
            "PARSER_BIND": declared_settings.unchecked(said, "PARSER_BIND").strip("[]"),  # brackets are Compose's
            "PARSER_PORT": str(parser_port),
            "VLM_URL": said.get("VLM_URL") or f"http://{reachable(vlm_host)}:{vlm_port}/v1",
            "READY_TIMEOUT": str(declared_settings.whole(said, "READY_TIMEOUT")),
            "MODELS_DIR": str((ROOT / declared_settings.text(said, "MODELS_DIR")).resolve()),
            "ENVS_DIR": str(ENVS_DIR),
            "OPERATIONS_PYTHON": str(ENVS_DIR / "tools/bin/python"),
            "RUN_DIR": str(RUN_DIR),
            "PARSER_DATA_DIR": said.get("PARSER_DATA_DIR") or str(RUN_DIR / "data"),
            # Of a program's log supervisord expands the path twice.
            "LOG_DIR": str(RUN_DIR / "logs").replace("%", "%%"),
            "SUPERVISOR_SOCKET": str(socket_path(RUN_DIR)),
            # What config/supervisord.conf reads: both services, started one by one, logging to files. The names are
            # relative to it, because supervisord takes a blank for the end of a name.
            "PROGRAMS": " ".join(f"supervisor/{name}.conf" for name in programs(said)),
            "AUTOSTART": "false",
            "START_SECONDS": "3",
            "LOG_MAXBYTES": "20MB",
            "PARSER_STOP_SECONDS": "20",
            # Without a balancer in front there is one replica, on VLM_PORT itself.
            "VLM_REPLICAS": "1",
            "VLM_REPLICAS_PER_DIE": "1",
            "VLM_REPLICA_PORT": "",
        }
        values = {**said, **layout, **own}
        values.pop("PYTHONPATH", None)
        return cls(values)

    @property
    def programs(self) -> tuple[str, ...]:
        """The services in the order in which they are started."""
        return programs(self.values)

    @property
    def environments(self) -> tuple[str, str, str]:
        """The names of the environments of supervisord, the VLM and the parser."""
        return "tools", self.values["VLM_ENVIRONMENT"], "parser"

    @property
    def listens(self) -> dict[str, tuple[str, str, int]]:
        """Program -> the setting of its port, and the address and the port that it listens on."""
        places = {
            "vlm": ("VLM_PORT", self.values["VLM_HOST"]),
            "layout": ("LAYOUT_PORT", "127.0.0.1"),
            "parser": ("PARSER_PORT", self.values["PARSER_BIND"]),
        }
        return {
            program: (setting, host, int(self.values[setting]))
            for program, (setting, host) in places.items()
            if program in self.programs
        }

    @property
    def ready_timeout(self) -> int:
        """Seconds."""
        return int(self.values["READY_TIMEOUT"])

    def address(self, program: str) -> str:
        """Where this machine reaches a program."""
        _, host, port = self.listens[program]
        return f"http://{reachable(host)}:{port}"

    @property
    def identity(self) -> dict[str, str]:
        """The settings that must agree before services that already run are used again: digests, since some are
        secrets."""
        own = sorted(declared_settings.names() - UNREAD)
        return {name: fingerprint(value) for name in own if (value := self.values.get(name))}


def programs(values: Mapping[str, str]) -> tuple[str, ...]:
    return ("vlm", "layout", "parser") if declared_settings.flag(values, "LAYOUT_SERVER") else ("vlm", "parser")


def layout_server(said: Mapping[str, str]) -> dict[str, str]:
    """What the program `layout` and the parser get where LAYOUT_SERVER asks for it: the CPU and an address of this
    machine, whatever .env says for compose. Raises UsageError."""
    if "layout" not in programs(said):
        return {}
    port = str(declared_settings.port(said, "LAYOUT_PORT"))
    own = {"LAYOUT_HOST": "127.0.0.1", "LAYOUT_PORT": port, "LAYOUT_DEVICE": "cpu"}
    return {**own, "LAYOUT_URL": f"http://127.0.0.1:{port}"}


def fingerprint(value: str) -> str:
    return hashlib.sha256(os.fsencode(value)).hexdigest()[:16]


def socket_path(run_dir: Path) -> Path:
    """Return the socket that supervisord listens on.

    A Unix socket's path is limited to 107 bytes, which a deep checkout can exceed.
    """
    path = run_dir / "supervisor.sock"
    # supervisord first makes a socket whose name is longer by its process id, and expands what follows a percent sign.
    if len(os.fsencode(path)) <= 95 and "%" not in str(path):
        return path
    return Path("/tmp") / f"paddleocr-vl-{os.getuid()}-{zlib.crc32(os.fsencode(run_dir)):08x}.sock"
