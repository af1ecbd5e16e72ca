# SPDX-License-Identifier: Apache-2.0
"""How the demo weights read print: blocks in bands of a few lines, tables by their cells, and a second look."""
