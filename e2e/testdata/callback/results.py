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

    def _write(self, result, failed):
        outcome = getattr(result, "result", None) or result._result
        host = getattr(result, "host", None) or result._host
        with open(os.environ["RESULTS"], "a") as file:
            json.dump({"host": host.get_name(), "result": dict(outcome, failed=failed)}, file, default=str)
            file.write("\n")

    # The result that a callback gets lacks "failed".

    def v2_runner_on_ok(self, result):
        self._write(result, failed=False)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._write(result, failed=True)

    def v2_runner_on_unreachable(self, result):
        self._write(result, failed=True)
