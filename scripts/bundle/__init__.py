# SPDX-License-Identifier: Apache-2.0
"""What the scripts of this folder are made of: standard library only, since it runs before any environment exists."""
