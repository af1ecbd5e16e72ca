# SPDX-License-Identifier: Apache-2.0
"""Which dies `vlm` and `vlm-next` get, where a die belongs to one container (scripts/upgrade.sh, decision 0415).

`values` are the settings of .env; `rows` what `project.containers` says; `halves` the dies of each service, those that
are gone included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import declared_settings
from bundle.compose import dies, project
from bundle.paths import ROOT
from tool_errors import UsageError

NOW, NEXT = "vlm", "vlm-next"
# The names under which the dies of each stand.
CHOICE = {NOW: dies.PRESENT, NEXT: dies.PRESENT_NEXT}


def held(rows: Mapping[str, dict[str, Any]], service: str) -> list[int]:
    """The dies whose device files a service's container was given; none where it is not there, and on CPU."""
    if service not in rows:
        return []
    devices = project.inspect(rows[service]["ID"])["HostConfig"].get("Devices") or []
    found = (re.fullmatch(r"/dev/davinci(\d+)", one["PathOnHost"]) for one in devices)
    return sorted(int(match[1]) for match in found if match)


def are_apart(rows: Mapping[str, dict[str, Any]]) -> bool:
    """Whether both containers are there, and each has dies of its own."""
    return bool(held(rows, NEXT)) and not set(held(rows, NEXT)) & set(held(rows, NOW))


def divides(rows: Mapping[str, dict[str, Any]]) -> bool:
    """Whether `vlm` has some of the dies only: `vlm-next` has others, or a start broke off before it was there."""
    broke_off = NEXT not in rows and bool(dies.written_for(dies.PRESENT_NEXT))
    return bool(held(rows, NOW)) and (are_apart(rows) or broke_off)


def has_joined(container: str) -> bool:
    """Whether a container has the name `vlm` in its network: it has passed the self-test, and calls go to it."""
    networks = project.inspect(container)["NetworkSettings"]["Networks"].values()
    return any(NOW in (network.get("Aliases") or ()) for network in networks)


def unserved(rows: Mapping[str, dict[str, Any]], values: Mapping[str, str], half: str) -> str:
    """Why dies that `vlm` gave up serve nobody, an empty text where none do so: an upgrade by halves was broken off.
    `half` is what `vlm` says that it uses of its own dies, empty for all."""
    of_next = set(written(NEXT, values))
    given_up = half or (of_next and of_next - set(held(rows, NOW)))
    if not given_up or (NEXT in rows and has_joined(rows[NEXT]["ID"])):
        return ""
    return f"{NEXT} did not pass the self-test yet" if NEXT in rows else f"there is no {NEXT}"


def written(service: str, values: Mapping[str, str]) -> list[int]:
    """The dies that a service's file was written for, of which some may have been gone; none where neither .env nor a
    pair of containers uses the file. Where .env has numbers, others are somebody else's: the file is older."""
    text = dies.written_for(CHOICE[service])
    asked = dies.chosen(values)
    used = asked == dies.PRESENT or dies.written_for(dies.PRESENT_NEXT)
    if not text or not used:
        return []
    return [die for die in dies.parse_ids(text) if asked == dies.PRESENT or die in dies.parse_ids(asked)]


def whole(rows: Mapping[str, dict[str, Any]], values: Mapping[str, str]) -> list[int]:
    """All dies of the bundle."""
    return sorted({die for service in CHOICE for die in (*held(rows, service), *written(service, values))})


def of_pair(rows: Mapping[str, dict[str, Any]], values: Mapping[str, str]) -> dict[str, list[int]]:
    """The dies of each container of the pair: those that it holds, and others of its file that nobody holds."""
    now, following = set(held(rows, NOW)), set(held(rows, NEXT))
    return {
        NOW: sorted((now | set(written(NOW, values))) - following),
        NEXT: sorted((following | set(written(NEXT, values))) - now),
    }


def halved(numbers: Sequence[int], values: Mapping[str, str]) -> dict[str, list[int]]:
    """Two halves of the dies that are used: VLM_REPLICAS may be fewer. Dies that are gone count for neither, and belong
    to one all the same. Raises UsageError for one die, DeviceError where none can be used."""
    gone = dies.unusable(numbers)
    there = dies.without(numbers, gone)
    used = int(values.get("VLM_REPLICAS") or 0)
    if 0 < used < len(there):
        there = there[:used]
        numbers = [number for number in numbers if number <= there[-1]]
    if len(there) < 2:
        why = "".join(f"; die {number}: {reason}" for number, reason in gone.items())
        raise UsageError(
            f"one die cannot be halved; expected two dies or more that can be used (NPU_IDS, VLM_REPLICAS){why}"
        )
    first = there[(len(there) + 1) // 2]
    return {NOW: [die for die in numbers if die < first], NEXT: [die for die in numbers if die >= first]}


def check(halves: Mapping[str, Sequence[int]], values: Mapping[str, str]) -> None:
    """Raise UsageError for what cannot hold for both containers, before anything is changed."""
    device = values.get("LAYOUT_DEVICE") or ""
    number = device.partition(":")[2]
    least = min(map(len, halves.values()))
    if declared_settings.flag(values, "LAYOUT_SERVER") and number.isdigit() and int(number) >= least:
        raise UsageError(
            f"LAYOUT_DEVICE is {device}; expected a die of both halves, which are counted from 0 to {least - 1}. With "
            "this value the layout server of one half cannot start. Nothing was changed. Set LAYOUT_DEVICE=npu in "
            ".env, the first die of each half"
        )
    if cores_of_next(halves, values) == "":
        raise UsageError(
            f"VLM_CORES is {values['VLM_CORES']!r}; expected `auto`, `none`, or a list for each of the "
            f"{sum(map(len, halves.values()))} dies of vlm and vlm-next. Nothing was changed"
        )
    folder = project.boot_folder(values)
    if folder and folder != ROOT.resolve():
        raise UsageError(
            f"{project.UNIT} starts the bundle in {folder} at boot, and would then give vlm the dies of vlm-next. "
            f"Nothing was changed. Set WorkingDirectory={ROOT} in it, then run systemctl daemon-reload"
        )


def cores_of_next(halves: Mapping[str, Sequence[int]], values: Mapping[str, str]) -> str | None:
    """VLM_CORES of vlm-next: .env has a list for each die of both containers, and `vlm` reads the first ones. An empty
    text where lists lack, None where .env has no lists."""
    lists = declared_settings.unchecked(values, "VLM_CORES").split(";")
    if lists[0] in ("auto", "none"):
        return None
    begin = len(halves[NOW])
    own = lists[begin : begin + len(halves[NEXT])]
    return ";".join(own) if len(own) == len(halves[NEXT]) else ""


def settings(service: str, halves: Mapping[str, Sequence[int]], values: Mapping[str, str]) -> dict[str, str]:
    """Settings that give a service the device files of its dies, all of which it uses; writes the file that names them.

    Dies that are gone are left out: the engine makes no container with their device files. Raises DeviceError where
    none is left.
    """
    dies.write_present(dies.ids(halves[service]), CHOICE[service])
    own = {"NPU_IDS": CHOICE[service], "VLM_REPLICAS": ""}
    if service == NOW:
        return own
    cores = cores_of_next(halves, values)
    return {**own, "VLM_NEXT_HALF": "", **({"VLM_CORES": cores} if cores else {})}
