#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Try another version of the VLM on half of the dies while the others serve: upgrade.sh start [--pause] | promote | back [--pause]
#
# operations/bundle/compose/upgrade.py: `start` runs the image that compose names now as vlm-next on the second half, and
# lets it serve when it has passed the self-test; `promote` replaces vlm too; `back` gives vlm all dies again.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node compose.upgrade "$@"
