# SPDX-License-Identifier: Apache-2.0
"""Trouble for a running bundle, by a seed: what is done to it, what clients see meanwhile, and what must hold at the
end."""
