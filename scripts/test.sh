#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run the tests, each group in the environment that it needs: test.sh [GROUP...] [OPTION OF PYTEST...]; test.sh -h names the groups
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module testing "$@"
