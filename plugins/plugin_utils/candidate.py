# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The candidate on the controller: found as copy finds its src, and read once in a run, not once for each host."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os

from ansible import constants
from ansible.utils.display import Display

display = Display()

# Enough for the ELF header with its program headers, or a script's first line.
HEAD_SIZE = 4096
BLOCK = 1 << 20


class Candidate:
    """A file that may become the executable on hosts. Its facts are what the module needs to plan."""

    def __init__(self, name, path, loader):
        self.name = name
        self._path = path
        self._loader = loader
        self.facts = self._remembered()

    @property
    def size(self):
        return self.facts["size"]

    def plain_path(self):
        """The path of the content itself: a file that vault encrypted is decrypted here."""
        return self._loader.get_real_file(self._path)

    def blocks(self, size):
        """The content in blocks of a size."""
        with open(self.plain_path(), "rb") as file:
            yield from iter(lambda: file.read(size), b"")

    def _remembered(self):
        """The facts, from the one process of this run that computes them.

        Each host is served by a process of its own. They share this run's
        temporary folder, which ends with the run.
        """
        notes = os.path.join(constants.DEFAULT_LOCAL_TMP, f"lastgood-{self._identity()}")
        with open(notes, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            if text:
                return json.loads(text)
            facts = self._read()
            json.dump(facts, file)
            return facts

    def _identity(self):
        """Another one whenever the file may have another content."""
        stat = os.stat(self._path)
        known = [os.path.realpath(self._path), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()

    def _read(self):
        display.vvv(f"reading the candidate {self._path}")
        digest = hashlib.sha256()
        size = 0
        head = b""
        for block in self.blocks(BLOCK):
            head = head or block[:HEAD_SIZE]
            digest.update(block)
            size += len(block)
        return {"sha256": digest.hexdigest(), "size": size, "head": base64.b64encode(head).decode("ascii")}
