# SPDX-License-Identifier: Apache-2.0
"""A document: decoding, fetching, telling formats, reading one page."""
