# SPDX-License-Identifier: Apache-2.0
"""scripts/preflight.sh: what a machine lacks for the bundle, before anything is started."""
