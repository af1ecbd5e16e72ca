# SPDX-License-Identifier: Apache-2.0
"""Virtual environments from locks: uv, stamps, locks, wheels."""
