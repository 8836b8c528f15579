# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file only documents the module. What runs on the host is a binary, so
# that the host needs no Python.

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: daemon_binary
short_description: Make a binary the executable of a systemd service, or keep the one that worked
version_added: 0.1.0
description:
  - Puts a new executable, the candidate, under a running daemon. It is verified, installed into the free one of two
    slots, activated by switching a symbolic link, and confirmed once one process of it has run through a stable
    window. If that does not happen, the version that worked is activated again and has to prove its health too.
  - At every instant O(path) resolves to a complete executable, also if the host loses power half way.
  - A host where O(path) is one plain file is adopted on the way, without a restart.
  - In check mode the whole plan is computed and checked, and nothing on the host is changed. What would be refused in
    a real run fails in check mode too.
  - The module's binary, about 4 MB, is sent to a host once and kept there, in C(/var/cache/lastgood) for root and in
    C(~/.cache/lastgood) for other users. From then on a call is one round trip. The candidate is sent only to hosts
    that do not have it, and in check mode not at all.
options:
  path:
    description:
      - Public path of the executable, the one that people and units name.
      - Once managed it is a symbolic link.
    type: path
    required: true
  unit:
    description:
      - The systemd unit that runs the executable. C(.service) is added where there is no suffix.
      - Its C(ExecStart) must run O(path), or the link C(current).
      - Without it only the files are managed and O(version_args) is the only check, as for a tool that is no daemon or
        for an image that is being built.
    type: str
  state:
    description:
      - V(present) makes the candidate active and running.
      - V(adopted) makes the layout managed. What runs is left alone.
      - V(rolled_back) makes the executable active that last ran healthily.
    type: str
    default: present
    choices: [present, adopted, rolled_back]
  src:
    description:
      - The candidate. It is looked for on the controller as M(ansible.builtin.copy) does it, or on the host with
        O(remote_src=true).
      - With O(state=present) this or O(checksum) is required.
    type: path
  remote_src:
    description: Whether O(src) is on the host.
    type: bool
    default: false
  checksum:
    description:
      - SHA-256 of the candidate, as C(sha256:HEX) or bare.
      - Without O(src) it names an executable that is in a slot already.
    type: str
  version:
    description: The version that the candidate must report, a whole word of what its version command prints.
    type: str
  version_args:
    description:
      - Arguments of the version command, which runs the candidate before it is installed.
      - An empty list turns that off.
    type: list
    elements: str
    default: [--version]
  version_timeout:
    description: Seconds that the version command may take.
    type: float
    default: 10
  owner:
    description: Owner of the slots, a name or a number. By default that of the executable that is replaced.
    type: str
  group:
    description: Group of the slots, a name or a number. By default that of the executable that is replaced.
    type: str
  mode:
    description: Mode of the slots, as V('0755') or symbolic. By default that of the executable that is replaced.
    type: raw
  slot_dir:
    description: Folder of the slots and links. By default the folder of O(path).
    type: path
  layout:
    description: Single paths that differ from the default.
    type: dict
    suboptions:
      blue:
        description: One slot. By default the name of O(path) with C(-blue).
        type: path
      green:
        description: The other slot. By default the name of O(path) with C(-green).
        type: path
      current:
        description: The link to the active slot. By default the name of O(path) with C(-current).
        type: path
      last_good:
        description: The link to the slot that last ran healthily. By default the name of O(path) with C(-last-good).
        type: path
  lock_path:
    description: Lock file that other upgraders of this executable take too. By default C(/run/NAME-upgrade.lock).
    type: path
  lock_timeout:
    description: Seconds to wait for another upgrader. With V(0) a held lock is refused at once.
    type: float
    default: 0
  signal_path:
    description: A file by which another upgrader says that its own activation is not settled. While it exists nothing is done.
    type: path
  state_dir:
    description: Folder where lastgood remembers what was healthy on this host and what was not.
    type: path
    default: /var/lib/lastgood
  restart:
    description:
      - V(auto) restarts the unit when it does not run the wanted executable.
      - V(always) restarts it in any case.
      - V(never) switches the files only.
      - A stopped unit stays stopped.
    type: str
    default: auto
    choices: [auto, always, never]
  health:
    description: What a healthy daemon is.
    type: dict
    suboptions:
      stable_for:
        description: Seconds that one process must run without a restart.
        type: float
        default: 3
      timeout:
        description: Seconds from the start of the new process until that time must begin.
        type: float
        default: 30
      tcp:
        description: A C(host:port) that must accept a connection.
        type: str
      command:
        description: A command that must end with exit code 0.
        type: list
        elements: str
  rollback:
    description: Whether to go back to the last good executable when the candidate is not healthy.
    type: bool
    default: true
  force:
    description: Whether to try a candidate again that this host has rejected.
    type: bool
    default: false
  verify_in_check_mode:
    description:
      - Whether check mode sends a candidate that the host lacks and runs its version command.
      - Without it check mode judges the candidate by its digest, its size and its header.
    type: bool
    default: false
author:
  - The lastgood authors (@lastgood)
requirements:
  - Linux with systemd 239 or newer on the host, for O(unit). No Python.
attributes:
  check_mode:
    description: Can run in check mode and return the changed status without modifying the host.
    support: full
  diff_mode:
    description: Returns what differs, the facts and the steps.
    support: full
  async:
    description: Can be run with C(async). This is the one case that needs Python on the host.
    support: full
  platform:
    description: Target systems.
    platforms: linux
    support: full
seealso:
  - module: lastgood.activation.daemon_binary_info
  - module: ansible.builtin.systemd_service
notes:
  - Where one round trip is not possible, the module is copied to the host for each call as Ansible does it with all
    binary modules, and all else stays the same. That is with C(async), with C(su) and other become methods that need a
    terminal, with connections that have no pipelining, where C(ANSIBLE_KEEP_REMOTE_FILES) is set or C(pipelining) is
    switched off explicitly, and where the folder on the host can't be used. With C(-vv) the reason is shown. The variable
    C(lastgood_pipelining), when set, overrides Ansible's C(pipelining).
  - Where both that folder and the remote temporary folder are on file systems mounted C(noexec), the module can't start.
    Set C(remote_tmp) to a folder where programs may run.
"""

EXAMPLES = r"""
- name: Upgrade foo, or keep the version that works
  lastgood.activation.daemon_binary:
    path: /usr/local/bin/foo
    unit: foo
    src: foo-2.0.0
    version: 2.0.0
    health:
      tcp: 127.0.0.1:8080

- name: Manage foo from now on, and leave alone what runs
  lastgood.activation.daemon_binary:
    path: /usr/local/bin/foo
    unit: foo
    state: adopted

- name: Go back to the version that last worked
  lastgood.activation.daemon_binary:
    path: /usr/local/bin/foo
    unit: foo
    state: rolled_back
"""

RETURN = r"""
outcome:
  description:
    - What came of it. After a success V(unchanged), V(adopted), V(activated), V(repaired) or V(rolled_back).
    - After a failure V(refused), when nothing was tried; V(failed_unchanged), when nothing is left of what was tried;
      V(failed_rolled_back), when the last good version runs again; V(failed_dirty), when a person has to look.
  returned: always
  type: str
  sample: activated
plan:
  description: The steps, the same in check mode and in the real run. C(changes) tells those that change the host.
  returned: when the host was looked at
  type: list
  elements: dict
  sample:
    - {step: current, target: /usr/local/bin/foo-current, detail: "-> /usr/local/bin/foo-green", changes: true}
before:
  description: The facts before.
  returned: when the host was looked at
  type: dict
  sample:
    managed: true
    current: /usr/local/bin/foo-blue
    last_good: /usr/local/bin/foo-blue
    active_slot: blue
    sha256: 5b6b3e1e2a7bb8dca9d2c1f6e5c8fa3d7a6cf2e2fd0f3a6e43cf6ad0e4ad6a11
    version: 1.0.0
    size: 1953792
    mode: "0755"
    owner: root
    group: root
    unit: {active_state: active, sub_state: running, main_pid: 412, running_sha256: 5b6b3e1e2a7b, n_restarts: 0}
after:
  description: The facts afterwards. In check mode the prediction, without what can't be predicted.
  returned: when the host was looked at
  type: dict
candidate:
  description: The candidate's C(sha256), C(size), C(version) and C(arch).
  returned: when there is a candidate
  type: dict
rollback:
  description: Whether a rollback was C(attempted) and C(succeeded), its C(reason), and its own C(error).
  returned: when a rollback was considered
  type: dict
error:
  description: The C(kind) of the failure, from the list in docs/errors.md, with C(step), C(detail) and C(hint).
  returned: on failure
  type: dict
decisions:
  description:
    - Why the plan is as it is, a sentence each; what is active and how that is known, what the unit runs, which paths were
      derived, whether the candidate is what is active and what this host remembers of it, which slot is free, what becomes
      of last-good, why there is a restart or none.
  returned: with C(-vvv), when the host was looked at
  type: list
  elements: str
  sample:
    - "the host is managed, and active is 1.0.0 (sha256 5b6b3e1e2a7b) in /usr/local/bin/foo-blue: /usr/local/bin/foo leads to it"
    - "the candidate is sha256 0f3a6e43cf6a, and what is active is sha256 5b6b3e1e2a7b"
    - "the green slot is free: blue is active"
    - "a restart is planned: to run sha256 0f3a6e43cf6a"
timing:
  description: Milliseconds spent. C(downtime) is from the stop of the old process to the start of the stable window.
  returned: when the host was looked at
  type: dict
  sample: {total: 3480, hash: 12, copy: 20, restart: 70, health: 3100, downtime: 95}
layout_state:
  description: As RV(lastgood.activation.daemon_binary_info#module:layout_state), before anything would be done.
  returned: in check mode, when the host was looked at
  type: str
drift:
  description: As RV(lastgood.activation.daemon_binary_info#module:drift), before anything would be done.
  returned: in check mode, when the host was looked at
  type: list
  elements: str
slots:
  description: As RV(lastgood.activation.daemon_binary_info#module:slots), before anything would be done.
  returned: in check mode, when the host was looked at
  type: dict
pending:
  description: As RV(lastgood.activation.daemon_binary_info#module:pending), before anything would be done.
  returned: in check mode, when the host was looked at
  type: dict
lock_holder:
  description: As RV(lastgood.activation.daemon_binary_info#module:lock_holder), before anything would be done.
  returned: in check mode, when the host was looked at
  type: int
signal:
  description: As RV(lastgood.activation.daemon_binary_info#module:signal), before anything would be done.
  returned: in check mode, when the host was looked at
  type: dict
last_result:
  description: As RV(lastgood.activation.daemon_binary_info#module:last_result), before anything would be done.
  returned: in check mode, when the host was looked at
  type: dict
"""
