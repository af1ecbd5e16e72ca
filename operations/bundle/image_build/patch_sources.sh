#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by Dockerfile.ascend: our patches for VLLM_ASCEND_VERSION on its sources: patch_sources.sh SOURCES TOOLS, where TOOLS
# has patches/COMMIT/*.patch.
set -euo pipefail

sources="$1" tools="$2"

# Each of our patches says what it mends and when it can go. Sources that have the mend already are left as they are.
for patch in "$tools/patches/${VLLM_ASCEND_VERSION:-none}"/*.patch; do
    [[ -f "$patch" ]] || continue
    if git -C "$sources" apply "$patch" 2>/dev/null; then
        echo "patched: ${patch##*/}"
    elif git -C "$sources" apply --reverse --check "$patch" 2>/dev/null; then
        echo "has it already: ${patch##*/}"
    else
        echo "error: ${patch##*/} does not apply to these sources; expected those of commit $VLLM_ASCEND_VERSION" >&2
        exit 2
    fi
done
