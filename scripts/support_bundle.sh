#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collect in one archive what a helper asks for: support_bundle.sh [--out FILE]
#
# operations/bundle/support: run the commands of sources.py, fetch metrics and CANN's logs, take out secrets (redact.py),
# write the archive. Keys and documents are never in it.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node support "$@"
