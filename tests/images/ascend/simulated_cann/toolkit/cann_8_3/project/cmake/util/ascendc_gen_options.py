# SPDX-License-Identifier: Apache-2.0
"""Simulated: note compile options of an operator: FILE OPERATOR [CHIP] OPTION..."""

import json
import sys

with open(sys.argv[1], "a") as file:
    file.write(json.dumps({"operator": sys.argv[2], "options": sys.argv[3:]}) + "\n")
