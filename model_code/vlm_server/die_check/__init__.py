# SPDX-License-Identifier: Apache-2.0
"""Does each die by itself compute what it should? One operator of each kind that we use, against double precision."""
