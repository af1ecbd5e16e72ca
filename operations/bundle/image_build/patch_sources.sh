#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by Dockerfile.ascend: apply our patches to vllm-ascend's sources: patch_sources.sh SOURCES FOLDER...
# patches/COMMIT/*.patch change what serves; those in patches/COMMIT/build only how it is compiled.
set -euo pipefail

sources="$1"

# Each of our patches says what it mends and when it can go. Sources that have the mend already are left as they are.
for folder in "${@:2}"; do
    for patch in "$folder"/*.patch; do
        [[ -f "$patch" ]] || continue
        if git -C "$sources" apply "$patch" 2>/dev/null; then
            echo "patched: ${patch##*/}"
        elif git -C "$sources" apply --reverse --check "$patch" 2>/dev/null; then
            echo "has it already: ${patch##*/}"
        else
            echo "error: ${patch##*/} does not apply to these sources; expected those of the commit $(basename "${folder%/build}")" >&2
            exit 2
        fi
    done
done
