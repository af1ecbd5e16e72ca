#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compile config/requirements/*.in to locks with hashes for x86-64 and aarch64: lock_requirements.sh [ENV...]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module locks "$@"
