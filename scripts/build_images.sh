#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the images with labels that say from which commit, and when: build_images.sh [SERVICE...], else vlm and parser
#
# operations/bundle/compose/build.py: ask git (operations/bundle/origin.py), then `docker compose build` with the answer.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node compose.build "$@"
