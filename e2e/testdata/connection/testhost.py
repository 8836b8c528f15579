# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection that has no pipelining, as those of podman and of some clouds."""

from __future__ import annotations

import os
import shutil
import subprocess

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: testhost
short_description: Reach a test host without ssh
description: Runs commands with hack/testhost exec.
author: The lastgood authors
options: {}
"""


class Connection(ConnectionBase):
    transport = "testhost"
    has_pipelining = False

    def _connect(self):
        self._connected = True
        return self

    def _testhost(self, *words):
        return subprocess.run([os.environ["TESTHOST"], *words], capture_output=True, check=False)

    def exec_command(self, cmd, in_data=None, sudoable=True):
        done = self._testhost("exec", self._play_context.remote_addr, "/bin/sh", "-c", cmd)
        return done.returncode, done.stdout, done.stderr

    def _path(self, path):
        root = self._testhost("root", self._play_context.remote_addr).stdout.decode().strip()
        return root + path

    def put_file(self, in_path, out_path):
        shutil.copyfile(in_path, self._path(out_path))

    def fetch_file(self, in_path, out_path):
        shutil.copyfile(self._path(in_path), out_path)

    def close(self):
        self._connected = False
