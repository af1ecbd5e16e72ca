#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Keys of a parser without containers: keys.sh api_keys|link_keys WORDS...
#
# operations/bundle/local_mode/keys.py: run the parser's own command with the settings of local mode, .env among them, so
# that it works on the files which the parser reads (docs/secure.md).
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node local_mode.keys "$@"
