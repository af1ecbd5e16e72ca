#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bring published weights to their folder in MODELS_DIR: fetch_weights.sh hf|modelscope|PATH [MODEL]. PATH is a folder or a
# tar archive, MODEL an entry of config/models.yaml (default: the newest PaddleOCR-VL).
#
# operations/bundle/weights/fetch.py: gather the files beside their place, check that they are whole and agree with the
# manifest, write a manifest if there is none, and rename the folder to its name.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node weights.fetch "$@"
