#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests, each group in the environment that it needs: test.sh [GROUP...] [OPTION OF PYTEST...]; test.sh -h
# names the groups
#
# tests/runner/__main__.py: take the groups that this machine can run, make their environments, run pytest for each
# group, the containers beside the others; run what failed once more, then say what was left out and why, and add the counts up.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
cd -- "$ROOT"
run_with "$ENVIRONMENTS_PYTHON" tests.runner "$@"
