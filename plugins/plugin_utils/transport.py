# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a call of the module reaches a host.

The direct way is one round trip: a shell script (transport.sh) runs the
module's binary, which the host keeps under its digest, with the arguments on
standard input. The binary is sent once, when the script says that it is
missing.

Where that can't be, Ansible's own way is taken: it copies the binary and a file
with the arguments to the host for each call. It is taken as long as the binary
has not begun; after that, nothing is tried twice.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shlex

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.unsafe_proxy import wrap_var

display = Display()

# What `uname -sm` says, and what Go calls it. A 32-bit user land may have a 64-bit kernel: the binary is static.
ARCHITECTURES = {
    "Linux/x86_64": "amd64",
    "Linux/aarch64": "arm64",
    "Linux/armv7l": "arm",
    "Linux/armv8l": "arm",
    "Linux/i386": "386",
    "Linux/i486": "386",
    "Linux/i586": "386",
    "Linux/i686": "386",
    "Linux/ppc64le": "ppc64le",
    "Linux/s390x": "s390x",
    "Linux/riscv64": "riscv64",
}

# The most that is held in memory for one host at a time.
BLOCK = 8 << 20

HERE = os.path.dirname(__file__)

# The script is the first line of standard input, its own lines apart by \\n:
# on the command line it would be in the way of who reads -vvv, a process list
# or an audit log. A shell reads no byte more than the line.
READ_SCRIPT = 'IFS= read -r script && eval "$(printf %b "$script")"'


class NotDirect(Exception):
    """The direct way can't be taken, and the module did not run."""


class BinaryAction(ActionBase):
    """Runs the binary, as the module that a subclass names."""

    module: str

    def call(self, args, task_vars, sent=""):
        """Runs the module and returns its result. A candidate that was sent is removed."""
        try:
            return self._call_directly(args, task_vars, sent)
        except NotDirect as reason:
            self._note(f"calling the module Ansible's own way: {reason}")
        return self._call_plainly(args, task_vars)

    def send(self, candidate, task_vars):
        """Sends a candidate and returns its path on the host."""
        display.v(f"sending the candidate {candidate.name}, {megabytes(candidate.size)}", host=self._host())
        try:
            self._require_direct(task_vars)
            return self._store(f"candidate-{secrets.token_hex(8)}", candidate.facts["sha256"], candidate.size, candidate.blocks(BLOCK))
        except NotDirect as reason:
            self._note(f"sending it Ansible's own way: {reason}")
        return self._send_plainly(candidate)

    # --- The direct way ------------------------------------------------------

    def _call_directly(self, args, task_vars, sent):
        self._require_direct(task_vars)
        binaries = self._binaries(task_vars)
        digests = binaries.digests()
        args = dict(args)
        self._update_module_args(self.module, args, task_vars)
        text = json.dumps(args, cls=AnsibleJSONEncoder, vault_to_text=True).encode("utf-8")
        keys = [f"{machine}={digests[arch]}" for machine, arch in ARCHITECTURES.items() if arch in digests]
        if sent:
            keys.append(f"sent={os.path.basename(sent)}")
        said = self._run("call", keys, text)
        if said.word == "missing":
            self._send_binary(binaries, digests, said.detail)
            said = self._run("call", keys, text)
        if said.word != "begin":
            raise NotDirect(said)
        return self._result(said)

    def _send_binary(self, binaries, digests, machine):
        arch = ARCHITECTURES[machine]
        path = binaries.path(arch)
        size = os.stat(path).st_size
        display.vv(f"sending lastgood for {arch}, {megabytes(size)}", host=self._host())
        with open(path, "rb") as file:
            self._store(digests[arch], digests[arch], size, [file.read()])

    def _store(self, name, digest, size, blocks):
        """Stores blocks on the host as a file that has the digest, and returns its path."""
        part = f".{secrets.token_hex(8)}"
        done = 0
        for block in blocks:
            said = self._run("store", [name, digest, str(size), part], block)
            done += len(block)
            if said.word == "stored":
                return said.detail
            if said.word != "partial":
                raise NotDirect(said)
            display.v(f"sent {megabytes(done)} of {megabytes(size)}", host=self._host())
        raise NotDirect("the file has become shorter")

    def _run(self, action, words, stdin):
        """Runs the script on the host and returns what it said."""
        words = [shlex.quote(word) for word in (READ_SCRIPT, "lastgood", action, *words)]
        command = " ".join([self._compute_environment_string(), "/bin/sh -c", *words]).strip()
        return Said(self._low_level_execute_command(command, in_data=script() + stdin))

    def _result(self, said):
        """The one JSON object that the module prints."""
        text = next((line for line in said.rest if line.startswith("{")), "")
        try:
            result = json.loads(text)
        except ValueError:
            if said.code in (126, 127):
                raise NotDirect(f"the binary does not start: {said.stderr}") from None
            return self._no_result(said)
        # As Ansible does it: what a host says is no template, and can't set what is Ansible's own.
        return wrap_var({key: value for key, value in result.items() if not key.startswith("_ansible_")})

    def _no_result(self, said):
        return {
            "failed": True,
            "msg": "The module ended without a result, so it is not known what state the host is in. "
            "Run it again in check mode to see how the host was left.",
            "rc": said.code,
            "module_stdout": "\n".join(said.rest),
            "module_stderr": said.stderr,
        }

    def _require_direct(self, task_vars):
        """Raises NotDirect where standard input does not reach the module, or where the user wants Ansible's own way."""
        become = self._connection.become
        shell = self._connection._shell
        wanted = self._variable("lastgood_pipelining", task_vars)
        reasons = {
            "async": self._task.async_val,
            "ANSIBLE_KEEP_REMOTE_FILES": constants.DEFAULT_KEEP_REMOTE_FILES,
            "the connection has no pipelining": not self._connection.has_pipelining,
            "the host has no POSIX shell": getattr(shell, "SHELL_FAMILY", "") != "sh",
            "become needs a terminal": become and (become.name == "su" or become.require_tty),
            "become has no pipelining": become and not getattr(become, "pipelining", True),
            "pipelining is switched off": self._pipelining_is_off(task_vars) if wanted is None else not boolean(wanted),
        }
        for reason, holds in reasons.items():
            if holds:
                raise NotDirect(reason)

    def _pipelining_is_off(self, task_vars):
        """Whether somebody has switched pipelining off. That it is off by default says nothing.

        The task's variables always have a value; the host's only where somebody has set one.
        """
        host = self._task.delegate_to or task_vars["inventory_hostname"]
        hosts = task_vars["hostvars"]
        try:
            value, origin = constants.config.get_config_value_and_origin(
                "pipelining",
                plugin_type="connection",
                plugin_name=self._connection._load_name,
                variables=hosts[host] if host in hosts else {},
            )
        except AnsibleError:
            return False  # the connection has no such option
        return origin != "default" and not boolean(value)

    # --- Ansible's own way ---------------------------------------------------

    def _call_plainly(self, args, task_vars):
        self._plain_binary = self._binaries(task_vars).path(self._architecture())
        result = self._execute_module(
            module_name=self.module, module_args=dict(args), task_vars=task_vars, wrap_async=self._task.async_val
        )
        if result.get("rc") == 126 and "outcome" not in result:
            folder = self.get_shell_option("remote_tmp", "~/.ansible/tmp")
            result.update(
                failed=True,
                changed=False,
                outcome="refused",
                msg=f"The module can't start on the host, where programs can't run in {folder} (noexec?). "
                "Nothing was changed. Set remote_tmp to a folder where they can, as with ansible_remote_tmp in the inventory.",
            )
        return result

    def _configure_module(self, module_name, module_args, task_vars):
        """Has Ansible send the binary for the host in place of the file that bears the module's name."""
        configured = super()._configure_module(module_name, module_args, task_vars)
        if module_name != self.module:
            return configured
        return (*configured[:-1], self._plain_binary)

    def _architecture(self):
        """The host's architecture, as Go calls it."""
        answer = self._low_level_execute_command("uname -sm", sudoable=False)
        machine = to_text(answer["stdout"]).strip().replace(" ", "/", 1)
        if machine not in ARCHITECTURES:
            raise AnsibleError(f"lastgood has no binary for this host: `uname -sm` says {machine!r}. Nothing was changed.")
        return ARCHITECTURES[machine]

    def _send_plainly(self, candidate):
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        folder = self._connection._shell.tmpdir
        remote = self._connection._shell.join_path(folder, "candidate")
        self._transfer_file(candidate.plain_path(), remote)
        self._fixup_perms2((folder, remote), execute=False)
        return remote

    # --- Both ----------------------------------------------------------------

    def _binaries(self, task_vars):
        return Binaries(self._variable("lastgood_binaries", task_vars))

    def _variable(self, name, task_vars):
        return self._templar.template((task_vars or {}).get(name))

    def _note(self, text):
        display.vv(text, host=self._host())

    def _host(self):
        return self._play_context.remote_addr


class Said:
    """What the script said: a word, its detail, and what the module printed after that."""

    def __init__(self, answer):
        self.code = answer.get("rc")
        # With -vv and more, ssh talks there too.
        heard = to_text(answer.get("stderr", "")).splitlines()
        self.stderr = " ".join(line.strip() for line in heard if not line.startswith(("debug", "OpenSSH_")))
        lines = to_text(answer.get("stdout", "")).splitlines()
        begin = next((i for i, line in enumerate(lines) if line.startswith("lastgood: ")), None)
        if begin is None:
            self.word, self.rest = "", []
            self.detail = "the host does not run the script: " + (self.stderr or " ".join(lines))
            return
        self.word, _blank, self.detail = lines[begin].split(": ", 1)[1].partition(" ")
        self.rest = lines[begin + 1:]

    def __str__(self):
        return f"{self.word} {self.detail}".strip()


class Binaries:
    """The module's binaries on the controller, one for each architecture."""

    def __init__(self, folder):
        self._folder = os.path.expanduser(folder or os.path.join(HERE, "..", "binaries"))

    def path(self, arch):
        path = os.path.join(self._folder, f"lastgood-linux-{arch}")
        if not os.path.exists(path):
            raise AnsibleError(f"There is no {path}, which hosts of this architecture need. Nothing was changed. See docs/collection.md.")
        return path

    def digests(self):
        """The SHA-256 of each architecture's binary, as it was built."""
        try:
            with open(os.path.join(self._folder, "SHA256SUMS"), encoding="ascii") as file:
                pairs = [line.split() for line in file]
        except OSError as error:
            raise AnsibleError(f"The binaries of lastgood are missing: {error}. Nothing was changed. See docs/collection.md.") from None
        return {name.rpartition("-")[2]: digest for digest, name in pairs}


@functools.cache
def script():
    """The script as one line, without what only people need."""
    with open(os.path.join(HERE, "transport.sh"), encoding="ascii") as file:
        lines = [line.strip() for line in file]
    return ("\\n".join(line for line in lines if line and not line.startswith("#")) + "\n").encode("ascii")


def megabytes(size):
    return f"{size / 1e6:.1f} MB"
