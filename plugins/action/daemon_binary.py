# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module on a host, and sends it the candidate from the controller if it lacks that.

The module gets the candidate's digest, size and first bytes with the first
call. That is enough to plan and to check nearly everything. Only where the plan
installs the candidate does the module ask for its content; then the file is
sent, and the module is called again.
"""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.lastgood.activation.plugins.plugin_utils.candidate import Candidate
from ansible_collections.lastgood.activation.plugins.plugin_utils.transport import BinaryAction


class ActionModule(BinaryAction):
    module = "lastgood.activation.daemon_binary"

    def run(self, tmp=None, task_vars=None):
        self._supports_async = True
        super().run(tmp, task_vars)
        args = self._task.args.copy()
        if not self._is_on_controller(args):
            return self.call(args, task_vars)
        if args.get("state") not in (None, "present"):
            del args["src"]  # as of a play that was run with another state; nothing looks at it
            return self.call(args, task_vars)
        try:
            candidate = Candidate(args["src"], self._find_needle("files", args["src"]), self._loader)
        except (AnsibleError, OSError) as error:
            return self._missing(args["src"], error)

        channel = {"src_name": candidate.name, "candidate": candidate.facts}
        if not self._task.async_val:
            result = self.call(dict(args, _lastgood=channel), task_vars)
            if not result.pop("_lastgood_need_candidate", False):
                return result
        # Of a task that was left alone, as one with async, nothing can be asked.
        channel["sent"] = self.send(candidate, task_vars)
        return self.call(dict(args, _lastgood=channel), task_vars, channel["sent"])

    @staticmethod
    def _is_on_controller(args):
        source = args.get("src")
        return bool(source) and isinstance(source, str) and not boolean(args.get("remote_src") or False, strict=False)

    @staticmethod
    def _missing(source, error):
        detail = " ".join(to_text(error).split()).rstrip(".")
        return {
            "failed": True,
            "changed": False,
            "outcome": "refused",
            "msg": f"{detail}. Nothing was changed. Correct src, or set remote_src: true if the candidate is on the host.",
            "error": {"kind": "candidate_missing", "step": "arguments", "detail": f"src {source!r}: {detail}"},
        }
