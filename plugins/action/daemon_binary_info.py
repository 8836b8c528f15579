# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module on a host in one round trip."""

from __future__ import annotations

from ansible_collections.lastgood.activation.plugins.plugin_utils.transport import BinaryAction


class ActionModule(BinaryAction):
    module = "lastgood.activation.daemon_binary_info"

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        return self.call(self._task.args, task_vars)
