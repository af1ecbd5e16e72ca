#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write the compose fragment for a choice of dies: select_npus.sh IDS, like 0,2,5 or 4-11; then set NPU_IDS=IDS in
# .env. select_npus.sh present [IDS]: for those of IDS (of the last time, or all) that are there and usable now; then NPU_IDS=present.
# --wait SECONDS behind it, at boot: let the driver make the device files first.
#
# operations/bundle/compose/dies.py: check the numbers, write config/compose/dies/IDS.yaml with their device files.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node compose.dies "$@"
