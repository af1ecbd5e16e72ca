#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Check the running bundle against recorded values: selftest.sh [--mode local|docker] [--record] [--json] [--vlm URL] [--parser URL] [--weights DIR]
#
# operations/bundle/selftest.py: find the served weights and the values recorded for them, ask the VLM for the golden
# blocks (common/selftest), ask the parser for the golden page, compare both, and print the findings; --record writes
# the values.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node selftest "$@"
