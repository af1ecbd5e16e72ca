# SPDX-License-Identifier: Apache-2.0
"""Routes that speak what clients of other services speak already, over the same service, limits, keys and queue."""
