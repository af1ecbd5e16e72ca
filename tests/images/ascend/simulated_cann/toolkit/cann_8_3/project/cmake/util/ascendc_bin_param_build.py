# SPDX-License-Identifier: Apache-2.0
"""Simulated: write a script for each operator that compiles it for a chip: DESCRIPTIONS FOLDER CHIP [OPTION...]"""

import configparser
import sys

SCRIPT = """#!/bin/bash
set -e
opc "$1" --soc_version={chip} --output="$2"
"""

described = configparser.ConfigParser()
described.read(sys.argv[1])  # a kind of operator that upstream has none of brings no file
for operator in described.sections():
    name = f"{operator}-{described[operator]['opFile.value']}-0.sh"
    with open(f"{sys.argv[2]}/{name}", "w") as file:
        file.write(SCRIPT.format(chip=sys.argv[3]))
