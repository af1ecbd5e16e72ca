#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collect the wheels of environments for one platform in a folder: fetch_wheels.sh [--platform x86_64|aarch64] [--images] [ENV...]
# Image builds and air-gapped sites install from that folder (WHEELS_DIR); run it again to go on where it stopped.
set -euo pipefail
# shellcheck source=scripts/bundle/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bundle/python.sh"
run_module wheels "$@"
