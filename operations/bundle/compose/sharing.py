# SPDX-License-Identifier: Apache-2.0
"""Who else may use the dies: other containers that were given some, and whether the driver lets several hold one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import npu_smi
import ranges
from bundle.compose.project import PROJECT

HOLDER = (
    f'{{{{.Name}}}}|{{{{index .Config.Labels "{PROJECT}"}}}}'
    "{{range .HostConfig.Devices}}|{{.PathOnHost}}{{end}}\t{{json .Config.Env}}"
)
# How Ascend Docker Runtime is told a container's dies: `0,2-3`, or `Ascend910-0` as the device plugin writes it.
VISIBLE = re.compile(r'"ASCEND_VISIBLE_DEVICES=([^"]*)"')
# How device-share is turned on, and its risk: preflight and scripts/upgrade.sh print it.
SHARE = (
    "while no container uses the dies, as root: `npu-smi set -t device-share -i NPU -d 1` for each NPU, again after "
    "every boot. Any container with the device files can then use a die and take its memory, so do this only if you "
    "own all containers of the node"
)


def shared(
    wanted: Sequence[int], ask: Callable[..., npu_smi.Answer] = npu_smi.ask, devices: Path = Path("/dev")
) -> bool | None:
    """Whether several containers may hold these dies at once (device-share); None where npu-smi does not say. An NPU
    whose die is not known may be one of these."""
    report = npu_smi.listed(ask("info").text, devices, ask)
    npus = sorted({die.npu for die in report.dies if die.number is None or die.number in wanted})
    answers = [npu_smi.shared(ask("info", "-t", "device-share", "-i", str(npu))) for npu in npus]
    if not answers or None in answers:
        return None
    return all(answers)


def holders(run: Callable[..., str | None], own: str) -> dict[str, list[int]]:
    """Running containers of other projects than `own` -> the dies that they were given: as device files, or by Ascend
    Docker Runtime.

    `run` gives the output of a command, None where it fails. A privileged container may open every die and names none.
    """
    listed = (run("docker", "ps", "--quiet", "--no-trunc") or "").split()
    text = run("docker", "inspect", "--format", HOLDER, *listed) if listed else ""
    found = {}
    for line in (text or "").splitlines():
        given_files, _, environment = line.partition("\t")
        name, project, *devices = given_files.split("|")
        numbers = {int(match[1]) for one in devices if (match := re.fullmatch(r"/dev/davinci(\d+)", one))}
        numbers |= visible(environment)
        if numbers and project != own:
            found[name.lstrip("/")] = sorted(numbers)
    return found


def visible(environment: str) -> set[int]:
    """The dies that Ascend Docker Runtime gives to a container with this environment, a list in JSON."""
    found: set[int] = set()
    for part in (match[1] if (match := VISIBLE.search(environment)) else "").split(","):
        with contextlib.suppress(ValueError):  # `void` is no die
            found |= {*ranges.numbers(re.sub(r"^Ascend\w*-", "", part.strip()))}
    return found
