# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes each task's result on each host to the file that RESULTS names, one JSON object a line."""

from __future__ import annotations

import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, result, failed=False, **_options):
        outcome = dict(getattr(result, "result", None) or result._result)
        if failed:
            outcome["failed"] = True  # of an error in an action plugin Ansible 2.19 knows it and does not say it
        host = getattr(result, "host", None) or result._host
        with open(os.environ["RESULTS"], "a") as file:
            json.dump({"host": host.get_name(), "result": outcome}, file, default=str)
            file.write("\n")

    def _write_failure(self, result, **_options):
        self._write(result, failed=True)

    v2_runner_on_ok = _write
    v2_runner_on_failed = v2_runner_on_unreachable = _write_failure
