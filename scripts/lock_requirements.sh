#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compile the groups of config/requirements/pyproject.toml to locks with hashes for x86-64 and aarch64:
# lock_requirements.sh [--upgrade] [ENV...]
#
# operations/bundle/environments/locks.py: let uv resolve each group for both processors, and write its lock.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_module environments.locks "$@"
