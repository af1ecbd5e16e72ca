# SPDX-License-Identifier: Apache-2.0
"""Where lines and words stand on a picture, by their ink: for searchable PDFs, and for answers that say places."""
