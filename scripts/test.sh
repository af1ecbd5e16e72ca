#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests, each group in the environment that it needs: test.sh [unit|plugin|parser|tools|reference|training|layout|bundle|e2e|all]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module testing "$@"
