# SPDX-License-Identifier: Apache-2.0
"""Pages that others made, for judging: manuals of Debian's packages, and their texts set by TeX, Chromium and
LibreOffice. Nothing of them is used in training."""
