# Copyright (c) 2026 The lastgood authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file only documents the module. What runs on the host is a binary, so
# that the host needs no Python.

from __future__ import annotations

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
- name: What does foo run
  lastgood.activation.daemon_binary_info:
    path: /usr/local/bin/foo
    unit: foo
  register: foo

- name: Hosts where the running process is not what current says
  ansible.builtin.debug:
    msg: "{{ inventory_hostname }} runs {{ foo.facts.unit.running_sha256 }}"
  when: foo.facts.unit.running_sha256 | default(foo.facts.sha256) != foo.facts.sha256
"""

RETURN = r"""
facts:
  description: The same facts as RV(lastgood.activation.daemon_binary#module:before).
  returned: success
  type: dict
slots:
  description: C(path), C(sha256) and C(size) of the slots C(blue) and C(green).
  returned: success
  type: dict
history:
  description: What was done here, oldest first, and which executables were healthy.
  returned: success
  type: list
  elements: dict
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
