# SPDX-License-Identifier: Apache-2.0
"""What scripts/test.sh runs: the groups of tests, and one count over all of them. It needs the standard library
only."""
