# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For scripts that run in the image's build, to be sourced: the settings of CANN and ATB below $ASCEND (/usr/local/Ascend),
# and in the driver's place, which no build has, the library that the toolkit brings to link against.
ASCEND="${ASCEND:-/usr/local/Ascend}"

for settings in "$ASCEND"/{ascend-toolkit,nnal/atb}/set_env.sh; do
    [[ -f "$settings" ]] || { echo "error: $settings is missing; CANN_IMAGE must be an image of CANN" >&2; exit 1; }
    # It reads unset variables, and commands in it may fail where nothing is wrong.
    set +euo pipefail
    # shellcheck source=/dev/null
    source "$settings"
    set -euo pipefail
done
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$ASCEND/ascend-toolkit/latest/$(uname -m)-linux/devlib"
export LD_LIBRARY_PATH TORCH_DEVICE_BACKEND_AUTOLOAD=0
# CANN's compilers do not know where openEuler's gcc keeps the headers of C++; upstream's Dockerfiles name them as well.
for folder in "${CXX_HEADERS:-/usr/include/c++}"/*/"$(uname -m)-openEuler-linux"; do
    if [[ -d "$folder" ]]; then
        export CPLUS_INCLUDE_PATH="${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}${folder%/*}:$folder"
    fi
done
