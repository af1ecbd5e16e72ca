# SPDX-License-Identifier: Apache-2.0
"""Simulated: join descriptions of operators: INI... JSON"""

import configparser
import json
import sys

described = configparser.ConfigParser()
described.read(sys.argv[1:-1])
with open(sys.argv[-1], "w") as file:
    json.dump({name: dict(described[name]) for name in described.sections()}, file)
