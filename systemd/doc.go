// SPDX-License-Identifier: Apache-2.0

// Package systemd is activation.Service over systemd's D-Bus, for one unit.
//
// As root it talks to the manager's private socket, which needs no bus daemon
// and outlives a restart of one; otherwise it uses the system bus, where policy
// decides what is allowed. The process must live in the manager's PID namespace.
//
// A connection that breaks (the manager re-executes, the bus restarts) is made
// anew. Systemd 239 and newer will do, tested are 247, 252 and 257; what an
// older one does not tell is the zero value of its field.
//
// Every error that comes from a refusal by policy satisfies
// errors.Is(err, fs.ErrPermission), whoever refused: kernel, bus or polkit.
package systemd
