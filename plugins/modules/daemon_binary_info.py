# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file only documents the module. What runs on the host is a binary, so
# that the host needs no Python.

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: daemon_binary_info
short_description: Tell which binary a systemd service runs and how it is managed
version_added: 0.1.0
description:
  - Reads what M(lastgood.activation.daemon_binary) manages. It changes nothing on the host.
options:
  path:
    description: Public path of the executable.
    type: path
    required: true
  unit:
    description: The systemd unit that runs the executable.
    type: str
  version_args:
    description: Arguments of the version command. An empty list turns it off.
    type: list
    elements: str
    default: [--version]
  version_timeout:
    description: Seconds that the version command may take.
    type: float
    default: 10
  slot_dir:
    description: Folder of the slots and links. By default the folder of O(path).
    type: path
  layout:
    description: Single paths that differ from the default.
    type: dict
    suboptions:
      blue:
        description: One slot.
        type: path
      green:
        description: The other slot.
        type: path
      current:
        description: The link to the active slot.
        type: path
      last_good:
        description: The link to the slot that last ran healthily.
        type: path
  lock_path:
    description: Lock file that upgraders take. By default C(/run/NAME-upgrade.lock).
    type: path
  signal_path:
    description: A file by which another upgrader says that its own activation is not settled.
    type: path
  state_dir:
    description: Folder where lastgood remembers what was healthy on this host and what was not.
    type: path
    default: /var/lib/lastgood
author:
  - The lastgood authors (@lastgood)
requirements:
  - Linux on the host, with systemd 239 or newer for O(unit). No Python.
attributes:
  check_mode:
    description: Can run in check mode and return the changed status without modifying the host.
    support: full
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
  platform:
    description: Target systems.
    platforms: linux
    support: full
seealso:
  - module: lastgood.activation.daemon_binary
"""

EXAMPLES = r"""
- name: How does foo stand
  lastgood.activation.daemon_binary_info:
    path: /usr/local/bin/foo
    unit: foo
  register: foo

- name: Stop where somebody has changed something by hand, or a restart was forgotten
  ansible.builtin.assert:
    that: foo.drift | length == 0
    fail_msg: "{{ foo.drift | join('. ') }}."

- name: List the hosts that are still to be adopted
  ansible.builtin.debug:
    msg: "{{ inventory_hostname }} is legacy and runs {{ foo.facts.version | default('an unknown version') }}"
  when: foo.layout_state == 'legacy'
"""

RETURN = r"""
layout_state:
  description:
    - V(managed), when path, current and last-good stand as M(lastgood.activation.daemon_binary) leaves them.
    - V(legacy), when there is an executable and they do not. The next activation adopts it.
    - V(fresh), when there is no executable of this name.
  returned: success
  type: str
  sample: managed
drift:
  description:
    - What is not as it was left, a short sentence each. The list is empty where all is well.
    - It names a daemon that was not restarted after a switch; a path that was replaced, and links that are missing, dangle
      or were moved; a slot that was changed; a unit that is missing, starts something else, or whose files have changed
      and were not read again.
    - On a host that was never managed only the process and the unit can drift.
  returned: success
  type: list
  elements: str
  sample:
    - >-
      foo.service runs 1.0.0 (sha256 5b6b3e1e2a7b) from /usr/local/bin/foo-blue, and what is active is 2.0.0 (sha256
      0f3a6e43cf6a): it was not restarted since that changed
facts:
  description:
    - The same facts as RV(lastgood.activation.daemon_binary#module:before). What runs is C(unit.running_sha256).
    - The version is that of the active executable, from the history or from its version command.
  returned: success
  type: dict
slots:
  description:
    - C(path), C(sha256), C(version) and C(size) of the slots C(blue) and C(green).
    - An executable that is not active is not run to ask for its version. It is known where the history has it, and left
      out otherwise.
  returned: success
  type: dict
  sample:
    blue: {path: /usr/local/bin/foo-blue, sha256: 5b6b3e1e2a7bb8dca9d2c1f6e5c8fa3d7a6cf2e2fd0f3a6e43cf6ad0e4ad6a11, version: 1.0.0, size: 1953792}
    green: {path: /usr/local/bin/foo-green}
history:
  description: What was done here, oldest first, which executables were healthy, and what was active before (C(from_sha256), C(from_version)).
  returned: success
  type: list
  elements: dict
last_result:
  description: The newest record of RV(history), or null.
  returned: success
  type: dict
  sample:
    at: "2026-05-04T03:02:01Z"
    outcome: failed_rolled_back
    sha256: 0f3a6e43cf6ad0e4ad6a115b6b3e1e2a7bb8dca9d2c1f6e5c8fa3d7a6cf2e2fd
    version: 2.0.0
    proof: rejected
    detail: "unit foo.service is not healthy: it failed: exit code 1"
lock_holder:
  description: PID of the process that holds the lock. V(0) is nobody, V(-1) somebody who can't be named.
  returned: success
  type: int
signal:
  description: Another upgrader's signal, or null.
  returned: success
  type: dict
pending:
  description: An activation that was interrupted and is not settled, or null.
  returned: success
  type: dict
"""
