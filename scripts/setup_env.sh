#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make Python environments from the locks: setup_env.sh vlm|parser|reference|tools ...
# ENVS_DIR moves them (default .venvs); TORCH_CPU_INDEX_URL names an index with leaner builds of torch (x86-64).
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module environments "$@"
