# SPDX-License-Identifier: Apache-2.0
"""A small layout detector with the input and output contract of PP-DocLayoutV2."""
