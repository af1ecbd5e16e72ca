# SPDX-License-Identifier: Apache-2.0
"""What goes into the archive: commands, each with the file that gets its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bundle.compose.project import COMPOSE, PYTHON

LOG_LINES = 20_000


@dataclass(frozen=True)
class Source:
    """A command whose output becomes the file `name` of the archive; `why` stands in its table of contents."""

    name: str
    why: str
    command: tuple[str, ...]
    timeout: float = 60


PACKAGES = (
    "import importlib.metadata as m; print(*sorted(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
)
# All programs of the container write to one log. These are the lines about one of them, from as far back as it goes.
LAYOUT_LOG = f"docker compose logs --no-color vlm | grep -i layout | tail -n {LOG_LINES}"

SOURCES = (
    Source(
        "status.json", "containers, replicas, layout server, weights, queue, disk", ("scripts/status.sh", "--json"), 120
    ),
    Source("preflight.json", "what this machine lacks", ("scripts/preflight.sh", "--json"), 600),
    Source("compose/ps.txt", "containers", (*COMPOSE, "ps", "--all")),
    Source("compose/config.yaml", "settings as compose reads them", (*COMPOSE, "config")),
    Source("compose/images.txt", "images", (*COMPOSE, "images")),
    Source("logs/vlm.log", "the VLM container", (*COMPOSE, "logs", "--no-color", "--tail", str(LOG_LINES), "vlm"), 120),
    Source(
        "logs/vlm-next.log",
        "the second container, after scripts/upgrade.sh",
        (*COMPOSE, "--profile", "upgrade", "logs", "--no-color", "--tail", str(LOG_LINES), "vlm-next"),
        120,
    ),
    Source("logs/parser.log", "the parser", (*COMPOSE, "logs", "--no-color", "--tail", str(LOG_LINES), "parser"), 120),
    Source("logs/layout.log", "what the VLM container's log says of the layout server", ("sh", "-c", LAYOUT_LOG), 120),
    Source(
        "vlm/replicas.json",
        "replicas, layout server",
        (*COMPOSE, "exec", "-T", "vlm", PYTHON, "-m", "container.status"),
    ),
    Source("vlm/layout.txt", "the layout server", (*COMPOSE, "exec", "-T", "vlm", PYTHON, "-m", "container.layout")),
    Source("vlm/packages.txt", "Python packages", (*COMPOSE, "exec", "-T", "vlm", "python", "-c", PACKAGES)),
    Source("parser/packages.txt", "Python packages", (*COMPOSE, "exec", "-T", "parser", "python", "-c", PACKAGES)),
    Source("vlm/processes.txt", "processes", (*COMPOSE, "top", "vlm")),
    Source("parser/processes.txt", "processes", (*COMPOSE, "top", "parser")),
    # The engine's own: `docker compose events` of Compose 2.26 knows no past.
    Source(
        "engine/events.txt",
        "the last hour's events of containers",
        ("docker", "events", "--since", "1h", "--until", "0s", "--filter", "type=container"),
    ),
    Source("engine/version.txt", "the container engine", ("docker", "version")),
    Source("engine/info.txt", "the container engine", ("docker", "info")),
    Source("engine/disk.txt", "its disk", ("docker", "system", "df")),
    Source(
        "host/system.txt", "kernel and system", ("sh", "-c", "uname -a; cat /etc/os-release /proc/uptime /proc/loadavg")
    ),
    Source("host/memory.txt", "memory", ("cat", "/proc/meminfo")),
    Source("host/processor.txt", "processor and memory nodes", ("lscpu",)),
    Source("host/disk.txt", "disks", ("df", "-h")),
    Source("host/kernel.log", "the kernel's messages", ("dmesg", "--ctime")),
    Source("npu/info.txt", "dies", ("npu-smi", "info")),
    Source("npu/map.txt", "dies and their numbers", ("npu-smi", "info", "-m")),
    Source("npu/topology.txt", "links and cores near dies", ("npu-smi", "info", "-t", "topo")),
    Source("npu/driver.txt", "driver and firmware", ("sh", "-c", "cat /usr/local/Ascend/*/version.info")),
    Source("npu/devices.txt", "device files", ("sh", "-c", "ls -ln /dev/davinci* /dev/devmm_svm /dev/hisi_hdc")),
)


def sources(npus: Iterable[int]) -> Iterator[Source]:
    """Every source; health and errors of each NPU, by the numbers that npu-smi gives them."""
    yield from SOURCES
    for number in npus:
        for kind in ("health", "ecc", "temp", "device-share"):
            command = ("npu-smi", "info", "-t", kind, "-i", str(number))
            yield Source(f"npu/{number}-{kind}.txt", f"{kind} of NPU {number}", command)
