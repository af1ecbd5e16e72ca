# SPDX-License-Identifier: Apache-2.0
"""Simulated: CANN's opc OPERATOR.py --main_func=F --input_param=FILE --soc_version=S --output=FOLDER ...

The operator's Python file, which upstream's own generator wrote, is run as the real one runs it: it finds the source
and says with which options the device compiler is called. What it imports of CANN (tbe) is simulated here.
"""

import json
import pathlib
import runpy
import subprocess
import sys
import types

script = pathlib.Path(sys.argv[1]).resolve()
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[2:])
[described] = json.loads(pathlib.Path(options["input_param"]).read_text())["op_list"]
output = pathlib.Path(options["output"]) / described["bin_filename"]
soc = options["soc_version"]
compiled: list[str] = []


def compile_op(source, function, operator, words, channel, settings, more):
    """As the device compiler is called by tbe.tikcpp.compile_op, once: the real one compiles for each tiling key."""
    given = [part for word in words for part in word.split()]
    command = ["bisheng", "-c", f"--cce-soc-version={soc}", *given, "-o", f"{output}.o", source]
    if code := subprocess.call(command):
        sys.exit(code)
    compiled.append(source)


def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, sys.modules[name])


def decorator(*_, **__):
    return lambda function: function


class AscendCLogLevel:
    LOG_INFO = LOG_ERROR = 0


class CommonUtility:
    @staticmethod
    def print_compile_log(*_):
        pass


SHORT = {"Ascend910_9391": "Ascend910_93", "Ascend910B1": "Ascend910B", "Ascend310P3": "Ascend310P"}
SPECIFICATION = {"SOC_VERSION": soc, "SHORT_SOC_VERSION": SHORT[soc]}
for package in ("tbe", "tbe.common"):
    module(package)
module("tbe.common.platform", get_soc_spec=SPECIFICATION.__getitem__)
module(
    "tbe.common.utils",
    para_check=types.SimpleNamespace(
        check_op_params=decorator,
        REQUIRED_INPUT=0,
        OPTION_INPUT=0,
        DYNAMIC_INPUT=0,
        REQUIRED_OUTPUT=0,
        OPTION_OUTPUT=0,
        DYNAMIC_OUTPUT=0,
        KERNEL_NAME=0,
    ),
)
module("tbe.common.buildcfg", get_default_build_config=lambda name: 0, get_current_build_config=lambda name: 0)
module("tbe.common.register", register_operator=decorator, register_param_generalization=decorator)
module(
    "tbe.tikcpp",
    compile_op=compile_op,
    replay_op=None,
    check_op_cap=None,
    generalize_op_params=None,
    get_code_channel=lambda *_: 0,
    OpInfo=types.SimpleNamespace,
)
module("tbe.tikcpp.compile_op", CommonUtility=CommonUtility, AscendCLogLevel=AscendCLogLevel)
vars(sys.modules["tbe.tikcpp"])["compile_op"] = compile_op  # the function has the name of the module

arguments = [*described["inputs"], *described["outputs"]]
runpy.run_path(str(script))[options["main_func"]](*arguments)
if not compiled:
    sys.exit(f"simulated opc: {script} compiles nothing")
support = {"inputs": described["inputs"], "outputs": described["outputs"], "simplifiedKey": [], "simplifiedKeyMode": 0}
text = {"binFileName": output.name, "binFileSuffix": ".o", "coreType": "MIX", "supportInfo": support}
pathlib.Path(f"{output}.json").write_text(json.dumps(text))
