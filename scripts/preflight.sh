#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check whether this machine can run the bundle; changes nothing: preflight.sh [--hardware ascend|cpu] [--json]
#
# operations/bundle/preflight: the host, the NPUs (ascend), the container engine and its images, the weights, in this
# order. Each finding is PASS, WARN or FAIL with what was found, what is needed and what to do; status 1 after any
# FAIL.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node preflight "$@"
