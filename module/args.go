// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/lastgood/lastgood/activation"

// The one table of arguments. The module, the hand commands, their usage and
// the test that holds the YAML documentation to it all read it.

// argType is a type by the name that Ansible gives it.
type argType string

const (
	typeStr   argType = "str"
	typePath  argType = "path"
	typeBool  argType = "bool"
	typeFloat argType = "float"
	typeList  argType = "list" // always of str
	typeDict  argType = "dict" // always with options
	typeRaw   argType = "raw"  // str or number, as it came
)

// argument describes one parameter.
type argument struct {
	Name     string     `json:"name"`
	Type     argType    `json:"type"`
	Required bool       `json:"required,omitempty"`
	Default  any        `json:"default,omitempty"`
	Choices  []string   `json:"choices,omitempty"`
	Options  []argument `json:"options,omitempty"`
	About    string     `json:"about"`

	onlyAnsible bool // no flag by hand
}

// module is one of the two names that Ansible knows the binary by.
type module struct {
	name      string
	arguments []argument
}

const collection = "lastgood.activation."

const (
	daemonBinaryName     = "daemon_binary"
	daemonBinaryInfoName = "daemon_binary_info"
)

var (
	daemonBinary     = module{daemonBinaryName, arguments}
	daemonBinaryInfo = module{daemonBinaryInfoName, pick(arguments,
		"path", "unit", "slot_dir", "layout", "lock_path", "signal_path", "state_dir", "version_args", "version_timeout")}
)

var arguments = []argument{
	{Name: "path", Type: typePath, Required: true, About: "public path of the executable"},
	{Name: "unit", Type: typeStr, About: "systemd unit that runs it; without one only the files are managed"},
	{Name: "state", Type: typeStr, Default: string(activation.Present), About: "wanted state",
		Choices: []string{string(activation.Present), string(activation.Adopted), string(activation.RolledBack)}},
	{Name: "src", Type: typePath, About: "the candidate"},
	{Name: "remote_src", Type: typeBool, Default: false, About: "src is on the managed host", onlyAnsible: true},
	{Name: "checksum", Type: typeStr, About: "SHA-256 of the candidate; without src, names a binary that is in a slot"},
	{Name: "version", Type: typeStr, About: "version that the candidate must report"},
	{Name: "version_args", Type: typeList, Default: []string{"--version"}, About: "arguments of the version command; empty: the candidate is not run"},
	{Name: "version_timeout", Type: typeFloat, Default: activation.DefaultVersionTimeout.Seconds(), About: "seconds that the version command may take"},
	{Name: "owner", Type: typeStr, About: "owner of the slots, name or number; default: as the replaced executable"},
	{Name: "group", Type: typeStr, About: "group of the slots, name or number; default: as the replaced executable"},
	{Name: "mode", Type: typeRaw, About: "mode of the slots, as '0755'; default: as the replaced executable"},
	{Name: "slot_dir", Type: typePath, About: "folder of slots and links; default: the folder of path"},
	{Name: "layout", Type: typeDict, About: "single paths that differ from the default", Options: []argument{
		{Name: "blue", Type: typePath, About: "slot"},
		{Name: "green", Type: typePath, About: "slot"},
		{Name: "current", Type: typePath, About: "link to the active slot"},
		{Name: "last_good", Type: typePath, About: "link to the slot that last ran healthily"},
	}},
	{Name: "lock_path", Type: typePath, About: "lock that other upgraders take too; default: /run/<name>-upgrade.lock"},
	{Name: "lock_timeout", Type: typeFloat, Default: 0.0, About: "seconds to wait for another upgrader; 0: fail at once"},
	{Name: "signal_path", Type: typePath, About: "refuse while this file exists"},
	{Name: "state_dir", Type: typePath, Default: activation.DefaultStateDir, About: "folder of lastgood's own state"},
	{Name: "restart", Type: typeStr, Default: string(activation.RestartAuto), About: "when to restart the unit",
		Choices: []string{string(activation.RestartAuto), string(activation.RestartAlways), string(activation.RestartNever)}},
	{Name: "health", Type: typeDict, About: "what a healthy daemon is", Options: []argument{
		{Name: "stable_for", Type: typeFloat, Default: activation.DefaultStableFor.Seconds(), About: "seconds that one process must run without a restart"},
		{Name: "timeout", Type: typeFloat, Default: activation.DefaultHealthTimeout.Seconds(), About: "seconds until that must begin"},
		{Name: "tcp", Type: typeStr, About: "host:port that must accept a connection"},
		{Name: "command", Type: typeList, About: "command that must exit 0"},
	}},
	{Name: "rollback", Type: typeBool, Default: true, About: "on failure go back to last-good"},
	{Name: "force", Type: typeBool, Default: false, About: "try a candidate that this host has rejected"},
	// The action plugin acts on this one; the binary only knows its name.
	{Name: "verify_in_check_mode", Type: typeBool, Default: false, About: "in check mode send and run the candidate too", onlyAnsible: true},
}

// pick returns the named arguments, in the table's order.
func pick(all []argument, names ...string) []argument {
	var picked []argument
	for _, a := range all {
		for _, name := range names {
			if a.Name == name {
				picked = append(picked, a)
			}
		}
	}
	return picked
}
