#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check the running bundle against recorded values: selftest.sh [--record] [--vlm URL] [--parser URL] [--weights DIR]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_on_node selftest "$@"
