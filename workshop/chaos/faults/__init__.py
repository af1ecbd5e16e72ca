# SPDX-License-Identifier: Apache-2.0
"""What can be done to the bundle. Each kind of trouble is a module with its actions; `ACTIONS` has them all."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults import clock, containers, disk, network, processes, vlm
from chaos.faults.field import Action

GROUPS: Mapping[str, Mapping[str, Action]] = {
    "processes": processes.ACTIONS,
    "containers": containers.ACTIONS,
    "disk": disk.ACTIONS,
    "network": network.ACTIONS,
    "clock": clock.ACTIONS,
    "vlm": vlm.ACTIONS,
}
ACTIONS: Mapping[str, Action] = {name: action for group in GROUPS.values() for name, action in group.items()}
