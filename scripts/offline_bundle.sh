#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Carry the bundle to a machine without network: offline_bundle.sh save ARCHIVE [--weights] [--corpus] [--to-build
# PROCESSOR] [--sign KEY], there: load [ARCHIVE] [--signers FILE] [--from FOLDER]
#
# operations/bundle/offline: save.py writes images, files of the checkout (contents.py), the Compose plugin and weights
# to one archive with a manifest of digests. load.py checks the digests, loads the images and ends with preflight.sh;
# takeover.py brings settings and weights of the folder before into the new one.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node offline "$@"
