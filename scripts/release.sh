#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a release from a clean tree: release.sh make FOLDER [--sign KEY] [--corpus] [--no-images]; release.sh version
# [NEW] says or writes the version
#
# operations/bundle/release: version.py checks that every file names the same version; sources.py takes the notes from
# the changelog, packs the commit, lists what its locks fetch, and says where all of it comes from; __main__.py builds
# the images and saves the offline archive; operations/bundle/signature.py signs the sums.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_module release "$@"
