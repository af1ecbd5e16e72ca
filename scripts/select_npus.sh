#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Write the compose fragment for a choice of dies: select_npus.sh IDS, like 0,2,5 or 4-11; then set NPU_IDS=IDS in .env.
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_on_node dies "$@"
