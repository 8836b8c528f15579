# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends the candidate from the controller to a host, if that host lacks it.

The module gets the candidate's digest, size and first bytes with the first
call. That is enough to plan and to check nearly everything. Only where the plan
installs the candidate does the module ask for its content; then the file is
sent, and the module is called again.
"""

from __future__ import annotations

import base64
import hashlib
import os

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

MODULE = "lastgood.activation.daemon_binary"
# Enough for the ELF header with its program headers, or a script's first line.
HEAD_SIZE = 4096


class ActionModule(ActionBase):
    TRANSFERS_FILES = True

    def run(self, tmp=None, task_vars=None):
        self._supports_async = True
        result = super().run(tmp, task_vars)
        args = self._task.args.copy()
        source = args.get("src")
        if not self._is_on_controller(args):
            return self._call(result, args, None, task_vars)
        try:
            # Like copy: the role's and the play's files folders, vault too.
            local = self._loader.get_real_file(self._find_needle("files", source))
            candidate = self._describe(local)
        except (AnsibleError, OSError) as error:
            return self._missing(result, source, error)

        channel = {"src_name": source, "candidate": candidate}
        if self._task.async_val:
            # Nothing can be asked of a task that was left alone.
            channel["sent"] = self._send(local, candidate)
            return self._call(result, args, channel, task_vars)
        self._call(result, args, channel, task_vars)
        if result.pop("_lastgood_need_candidate", False):
            channel["sent"] = self._send(local, candidate)
            self._call(result, args, channel, task_vars)
        return result

    @staticmethod
    def _is_on_controller(args):
        return (
            bool(args.get("src"))
            and isinstance(args["src"], str)
            and args.get("state") in (None, "present")
            and not boolean(args.get("remote_src") or False, strict=False)
        )

    def _describe(self, local):
        digest = hashlib.sha256()
        with open(local, "rb") as file:
            head = file.read(HEAD_SIZE)
            digest.update(head)
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
            size = os.fstat(file.fileno()).st_size
        return {"sha256": digest.hexdigest(), "size": size, "head": base64.b64encode(head).decode("ascii")}

    def _missing(self, result, source, error):
        detail = to_text(error).rstrip(". \n")
        result.update(
            failed=True,
            changed=False,
            outcome="refused",
            msg=f"{detail}. Nothing was changed. Correct src, or set remote_src: true if the candidate is on the host.",
            error={"kind": "candidate_missing", "step": "arguments", "detail": f"src {source!r}: {detail}"},
        )
        return result

    def _send(self, local, candidate):
        """Sends the candidate to the task's temporary folder and returns its name there."""
        display.v(f"sending the candidate, {candidate['size'] / 1e6:.1f} MB", host=self._task_host())
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        remote = self._connection._shell.join_path(folder, "candidate")
        self._transfer_file(local, remote)
        self._fixup_perms2((folder, remote), execute=False)
        return remote

    def _task_host(self):
        return getattr(self._play_context, "remote_addr", None)

    def _call(self, result, args, channel, task_vars):
        if channel is not None:
            args = dict(args, _lastgood=channel)
        result.clear()
        result.update(
            self._execute_module(
                module_name=MODULE, module_args=args, task_vars=task_vars, wrap_async=self._task.async_val
            )
        )
        return result
