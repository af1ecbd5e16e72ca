# SPDX-License-Identifier: Apache-2.0
"""How the demo weights under ``models/demo`` were made. Never needed to serve."""
