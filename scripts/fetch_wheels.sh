#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collect the wheels of environments for one platform in a folder: fetch_wheels.sh [--platform x86_64|aarch64]
# [--cuda] [ENV...]
# Image builds and sites without a network install from that folder (WHEELS_DIR). Run it again to go on where it stopped.
#
# operations/bundle/wheels.py: read the locks, keep files that are there with the right hash, download the others in
# batches, and check every file against its hash.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node wheels "$@"
