# SPDX-License-Identifier: Apache-2.0
"""scripts/parse_folder.py: many documents through one or several parsers. Runs in the environment ``client``."""
