#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Parse images and PDFs to Markdown on stdout: run_demo.sh PATH... [--out DIR] [--mode auto|docker|local] [--down]
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module demo "$@"
