#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Carry the bundle to a machine without network: offline_bundle.sh save ARCHIVE [--weights], there: load [ARCHIVE]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_on_node offline "$@"
