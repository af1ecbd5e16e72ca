#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Simulated: make a script that unpacks FOLDER/packages below --install-path: package.sh FOLDER SCRIPT
set -euo pipefail
[[ -x "$1/install.sh" && -d "$1/packages/vendors" ]] || { echo "no install.sh or packages in $1" >&2; exit 1; }
cat >"$2" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
[[ "${1:-}" == --install-path=?* ]] || { echo "expected --install-path=FOLDER" >&2; exit 1; }
target="${1#*=}"
mkdir -p "$target"
sed '1,/^# ARCHIVE$/d' "$0" | tar -xz -C "$target"
for vendor in "$target"/vendors/*; do
    mkdir -p "$vendor/bin"
    echo "export ASCEND_CUSTOM_OPP_PATH=$vendor:\${ASCEND_CUSTOM_OPP_PATH:-}" >"$vendor/bin/set_env.bash"
done
exit 0
# ARCHIVE
SCRIPT
tar -cz -C "$1/packages" . >>"$2"
chmod +x "$2"
