# SPDX-License-Identifier: Apache-2.0
"""Training pages that TeX, Chromium and LibreOffice set, with the truth of their PDF's text layer."""
