#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Entry point of the images: without words it starts the image's service (SERVICE: vlm or parser); words are run instead, in
# the same environment.
set -euo pipefail

# The driver's libraries are mounted from the node; CANN's own scripts do not name them.
for folder in /usr/local/Ascend/driver/lib64{,/common,/driver}; do
    if [[ -d "$folder" && ":${LD_LIBRARY_PATH:-}:" != *":$folder:"* ]]; then
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
    fi
done

# CANN and NNAL (ATB) set their search paths here and nowhere else; their scripts read unset variables.
for settings in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/nnal/atb/set_env.sh; do
    if [[ -f "$settings" ]]; then
        set +u
        # shellcheck source=/dev/null
        source "$settings"
        set -u
    fi
done

mkdir -p "$HOME"
if (($#)); then
    exec "$@"
fi
exec "$ENVS_DIR/supervisor/bin/python" -m "container.$SERVICE"
