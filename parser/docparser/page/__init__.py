# SPDX-License-Identifier: Apache-2.0
"""How one page is read. ``loop`` has the steps from top to bottom; PaddleX's are called through ``paddlex_private``."""
