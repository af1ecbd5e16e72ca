#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bring the published weights to MODELS_DIR/PaddleOCR-VL: fetch_weights.sh hf|modelscope|PATH (a folder or a tar archive)
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_on_node fetch_weights "$@"
