# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes when a play began, an item was done and all ended to the file that STAMPS names, one JSON object a line."""

from __future__ import annotations

import json
import os
import time

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stamps"
    CALLBACK_NEEDS_ENABLED = True

    def _write(self, event, **more):
        # The same clock for every process of the machine.
        stamp = {"event": event, "at": time.monotonic(), **more}
        with open(os.environ["STAMPS"], "a") as file:
            file.write(json.dumps(stamp) + "\n")

    def v2_playbook_on_play_start(self, play):
        self._write("play")

    def v2_runner_item_on_ok(self, result):
        self._write("item")

    def v2_playbook_on_stats(self, stats):
        self._write("end", changed=sum(stats.changed.values()))
