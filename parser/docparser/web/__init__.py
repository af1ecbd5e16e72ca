# SPDX-License-Identifier: Apache-2.0
"""The web page at ``/``: static files, no build step, nothing from another host."""
