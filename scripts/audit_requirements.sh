#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compare every lock with published advisories: audit_requirements.sh [LOCK...]
# ADVISORIES names them: a folder or ZIP of records in the OSV format, or its https address.
# Exit status: 0 nothing found, 1 something found, 2 a wrong setting, 4 no advisories: nothing was checked.
#
# operations/bundle/environments/audit.py: make the environment tools, and run environments/advisories.py in it, which
# reads the records, matches versions, and leaves out what config/requirements/accepted.toml accepts.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_module environments.audit "$@"
