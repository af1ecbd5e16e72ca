# SPDX-License-Identifier: Apache-2.0
"""Simulated: write each operator's implementation, dynamic/OPERATOR.py, from the descriptions and the noted options:
"" "" "" "" IMPLEMENTATIONS AUTOGEN --opsinfo-dir FOLDER..."""

import configparser
import json
import pathlib
import sys

words = sys.argv[1:]
assert words[:4] == [""] * 4 and words[6] == "--opsinfo-dir", words
target, autogen = pathlib.Path(words[4]) / "dynamic", pathlib.Path(words[5])
target.mkdir(parents=True, exist_ok=True)
noted = [json.loads(line) for line in (autogen / "custom_compile_options.ini").read_text().splitlines()]
for folder in words[7:]:
    for file in pathlib.Path(folder).glob("aic-*-ops-info.ini"):
        described = configparser.ConfigParser()
        described.read(file)
        for operator in described.sections():
            name = described[operator]["opFile.value"]
            options = [word for one in noted if one["operator"] == operator for word in one["options"]]
            entry = {"type": operator, "file": name, "options": options}
            (target / f"{name}.py").write_text(json.dumps(entry))
