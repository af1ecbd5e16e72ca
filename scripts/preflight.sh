#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check whether this machine can run the bundle; changes nothing: preflight.sh [--hardware ascend|cpu] [--json]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_on_node preflight "$@"
