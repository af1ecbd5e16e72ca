# SPDX-License-Identifier: Apache-2.0
"""One archive for whoever helps: logs, settings without secrets, versions, states (scripts/support_bundle.sh)."""
