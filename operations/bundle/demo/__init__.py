# SPDX-License-Identifier: Apache-2.0
"""scripts/run_demo.sh: from files to their Markdown."""
