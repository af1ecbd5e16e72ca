#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first hour on a node, one report in one archive: acceptance.sh [--minutes N | --skip-load] [--wait MINUTES] [--out FILE]
#
# operations/bundle/acceptance: preflight, driver, each die alone, ATB, graph modes, all dies, one crop, graph capture,
# self-test, ten pages, load. A step that fails does not stop the later ones. It starts the bundle if it does not run,
# and leaves it running. The exit status is 0 only if no step failed.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node acceptance "$@"
