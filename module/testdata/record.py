# SPDX-License-Identifier: Apache-2.0
"""Record what ansible-core makes of the arguments in arguments.json.

Usage, with ansible-core 2.19 in the Python at hand:

    lastgood arguments > table.json
    HOME=/home/lastgood PYTHONHASHSEED=0 python3 testdata/record.py table.json testdata/arguments.json

Each case gets "ansible": ansible-core's error messages, first first, or else
the coerced values. A case with "ours" is one where lastgood differs on
purpose; its "why" says so.

ansible-core 2.14 gives the same but for this: it writes a type as
<class 'str'> where 2.19 writes str; null is never an error there, and "None"
inside of a list of strings; and a dict given as "a=1 b" ends in a traceback.
"""

import json
import math
import sys

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError


def spec(table):
    result = {}
    for a in table:
        entry = {key: a[key] for key in ("type", "required", "default", "choices") if key in a}
        if a["type"] == "list":
            entry["elements"] = "str"
        if "options" in a:
            entry["options"] = spec(a["options"])
        result[a["name"]] = entry
    return result


def message(error):
    if isinstance(error, UnsupportedError):  # AnsibleModule adds this
        return "Unsupported parameters for (lastgood.activation.daemon_binary) module: " + error.msg
    return error.msg


def record(validator, case):
    try:
        result = validator.validate(case["args"])
    except (TypeError, ValueError) as crash:  # a traceback in a module
        return {"crash": str(crash)}
    if result.errors.errors:
        return {"errors": [message(e) for e in result.errors.errors]}
    values = result.validated_parameters
    return {"values": {name: in_json(values[name]) for name in case["args"]}}


def in_json(value):
    if isinstance(value, dict):
        return {key: in_json(inner) for key, inner in value.items()}
    infinite = isinstance(value, float) and not math.isfinite(value)
    return repr(value) if infinite else value


def main():
    table_file, cases_file = sys.argv[1:]
    with open(table_file) as f:
        table = json.load(f)["daemon_binary"]
    with open(cases_file) as f:
        cases = json.load(f)
    validator = ArgumentSpecValidator(spec(table), required_if=[("state", "present", ("src", "checksum"), True)])
    for case in cases:
        case["ansible"] = record(validator, case)
    with open(cases_file, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
