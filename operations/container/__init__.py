# SPDX-License-Identifier: Apache-2.0
"""Programs inside the images beside the services; Python's standard library only."""
