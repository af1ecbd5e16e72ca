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

# CANN and NNAL (ATB) set their search paths here and nowhere else; their scripts read unset variables, and commands in
# them may fail where nothing is wrong (grep that finds nothing), which must not end this one. ATB's asks torch
# for its C++ ABI, which would load torch_npu with it. The image's other services (balancer, metrics, fetch_weights) need
# none of it, and in Kubernetes have less memory than torch takes.
if [[ "${SERVICE:-}" == vlm ]]; then
    autoload="${TORCH_DEVICE_BACKEND_AUTOLOAD-unset}"
    export TORCH_DEVICE_BACKEND_AUTOLOAD=0
    for settings in "${ASCEND:=/usr/local/Ascend}"/{ascend-toolkit,nnal/atb}/set_env.sh; do
        if [[ -f "$settings" ]]; then
            set +euo pipefail
            # shellcheck source=/dev/null
            source "$settings"
            set -euo pipefail
        fi
    done
    TORCH_DEVICE_BACKEND_AUTOLOAD="$autoload"
    [[ "$autoload" != unset ]] || unset TORCH_DEVICE_BACKEND_AUTOLOAD
fi

mkdir -p "$HOME"
if (($#)); then
    exec "$@"
fi
exec "$ENVS_DIR/supervisor/bin/python" -m "container.$SERVICE"
