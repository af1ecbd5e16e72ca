#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Say whether all of the bundle serves: status.sh [--wait-all [SECONDS]] [--json]
#
# operations/bundle/status.py: containers, versions, replicas up of how many, layout server, readiness, weights, queue,
# disk. The exit status is 0 only if every replica, the parser and any layout server serve.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node status "$@"
