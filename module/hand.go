// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lastgood/lastgood/activation"
)

// Exit codes. By hand all of them; a module only the first two.
const (
	exitDone       = 0 // or nothing to do
	exitFailed     = 1
	exitUsage      = 2
	exitRefused    = 3
	exitRolledBack = 4
)

// command is one word that people type.
type command struct {
	name      string
	about     string
	module    module
	state     activation.State // the one state that it is for; empty: --state says
	checkMode bool
}

var commands = []command{
	{name: "preflight", about: "show what would be done, change nothing", module: daemonBinary, checkMode: true},
	{name: "activate", about: "make a candidate the active executable, or go back", module: daemonBinary, state: activation.Present},
	{name: "adopt", about: "manage what runs now, without changing what runs", module: daemonBinary, state: activation.Adopted},
	{name: "rollback", about: "make the last good executable active again", module: daemonBinary, state: activation.RolledBack},
	{name: "status", about: "show what is active, the slots and the history", module: daemonBinaryInfo},
}

// words that are commands without flags. arguments dumps the table that the
// documentation is held to, and stays out of the usage.
var plainCommands = []string{"help", "-h", "--help", "version", "--version", "arguments"}

func isCommand(word string) bool {
	return slices.Contains(plainCommands, word) || findCommand(word) != nil
}

func findCommand(word string) *command {
	for _, c := range commands {
		if c.name == word {
			return &c
		}
	}
	return nil
}

// runByHand runs args[0], which is a command.
func runByHand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	word, rest := args[0], args[1:]
	if c := findCommand(word); c != nil {
		return c.run(ctx, rest, stdout, stderr)
	}
	switch strings.TrimLeft(word, "-") {
	case "version":
		return printed(fmt.Fprintln(stdout, "lastgood", version))
	case "arguments":
		return printArguments(stdout)
	default:
		return help(rest, stdout, stderr)
	}
}

func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return printed(io.WriteString(stdout, usage()))
	}
	c := findCommand(args[0])
	if c == nil {
		return usageError(stderr, "", unknownCommand(args[0]))
	}
	return printed(io.WriteString(stdout, c.usage()))
}

func printArguments(stdout io.Writer) int {
	table := map[string][]argument{daemonBinaryName: daemonBinary.arguments, daemonBinaryInfoName: daemonBinaryInfo.arguments}
	raw, err := json.MarshalIndent(table, "", "  ")
	if err != nil { // no type in the table can fail
		panic(err)
	}
	return printed(stdout.Write(append(raw, '\n')))
}

// printed is the exit code of a command that only prints.
func printed(_ int, err error) int {
	if err != nil {
		return exitFailed
	}
	return exitDone
}

func (c command) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	request, err := c.parse(args)
	if err != nil {
		return usageError(stderr, c.name, err.Error())
	}
	if request.help {
		return printed(io.WriteString(stdout, c.usage()))
	}
	raw, err := json.Marshal(c.object(request.given))
	if err != nil { // strings, lists and maps of them can't fail
		panic(err)
	}
	r := answer(ctx, raw, &c.module)
	if err := show(r, request.json, stdout, stderr); err != nil {
		return exitFailed
	}
	return exitCode(r)
}

func show(r reply, asJSON bool, stdout, stderr io.Writer) error {
	if asJSON {
		_, err := stdout.Write(r.encode())
		return err
	}
	if _, err := io.WriteString(stdout, report(r)); err != nil {
		return err
	}
	out := stdout
	if r.Failed {
		out = stderr
	}
	_, err := io.WriteString(out, verdict(r))
	return err
}

// object is what Ansible would send for the same wish: there is one way in.
func (c command) object(given map[string]any) map[string]any {
	if c.module.name == daemonBinaryName {
		given["remote_src"] = true // by hand src is always a file on this host
	}
	if c.state != "" {
		given["state"] = string(c.state)
	}
	given[metaPrefix+"check_mode"] = c.checkMode
	given[metaPrefix+"verbosity"] = explains // for --json; people get the plan
	given[metaPrefix+"no_log"] = true        // syslog would call it Ansible's, and who typed the flags knows them
	return given
}

// parse reads flags into arguments as they go into JSON: strings, or lists of
// them where a list's flag was repeated. Coercion is the module's. (Package
// flag would do, for 45 KB on every host.)
func (c command) parse(args []string) (request, error) {
	r := request{given: map[string]any{}}
	flags := c.flags()
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		name, value, hasValue := strings.Cut(word, "=")
		switch dashed(name) {
		case "-h", "--help":
			r.help = true
			continue
		case "--json":
			r.json = true
			continue
		}
		i := slices.IndexFunc(flags, func(f handFlag) bool { return "--"+f.name == dashed(name) })
		switch {
		case !strings.HasPrefix(word, "--"):
			return r, fmt.Errorf("'%s' is no flag: everything is given as --FLAG VALUE", word)
		case i < 0:
			return r, fmt.Errorf("there is no flag %s", name)
		case hasValue:
		case flags[i].argument.Type == typeBool:
			value = "true"
		case len(args) == 0:
			return r, fmt.Errorf("%s needs a value", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := flags[i].set(r.given, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

// request is what a command line asks for.
type request struct {
	given map[string]any
	json  bool
	help  bool
}

// handFlag is one argument by hand. An option of a dict carries its name:
// health.stable_for is --health-stable-for.
type handFlag struct {
	name     string
	argument argument
	inside   string // the dict's name; empty: none
}

func (c command) flags() []handFlag {
	var flags []handFlag
	for _, a := range c.module.arguments {
		switch {
		case a.onlyAnsible || a.Name == "state" && c.state != "":
		case a.Type == typeDict:
			for _, option := range a.Options {
				flags = append(flags, handFlag{dashed(a.Name + "_" + option.Name), option, a.Name})
			}
		case c.takes(a.Name):
			flags = append(flags, handFlag{dashed(a.Name), a, ""})
		}
	}
	return flags
}

// takes keeps flags that would do nothing away from adopt and rollback.
func (c command) takes(name string) bool {
	describesCandidate := []string{"src", "checksum", "version", "force"}
	return c.state == "" || c.state == activation.Present || !slices.Contains(describesCandidate, name)
}

func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

func (f handFlag) set(given map[string]any, text string) error {
	if f.inside != "" {
		dict, _ := given[f.inside].(map[string]any)
		if dict == nil {
			dict = map[string]any{}
			given[f.inside] = dict
		}
		given = dict
	}
	if f.argument.Type == typePath {
		text = fromHere(text)
	}
	name := f.argument.Name
	earlier, again := given[name]
	switch {
	case !again:
		given[name] = text
	case f.argument.Type != typeList:
		return fmt.Errorf("--%s is given twice", f.name)
	default:
		given[name] = appendText(earlier, text)
	}
	return nil
}

// fromHere completes a relative path: by hand there is a current folder, which
// for a module is anybody's guess.
func fromHere(path string) string {
	if path == "" || strings.ContainsRune("~$", rune(path[0])) {
		return path // the module expands it
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path // and is refused for what it is
	}
	return absolute
}

// appendText makes a list of what was one string, which commas would split.
func appendText(earlier any, text string) []string {
	if list, ok := earlier.([]string); ok {
		return append(list, text)
	}
	first, _ := earlier.(string)
	return []string{first, text}
}

func exitCode(r reply) int {
	switch {
	case !r.Failed:
		return exitDone
	case r.Error != nil && r.Error.Kind == activation.KindInvalidArgs && r.Error.Step == stepArguments:
		return exitUsage
	case r.Outcome == activation.OutcomeRefused:
		return exitRefused
	case r.Outcome == activation.OutcomeFailedRolledBack:
		return exitRolledBack
	default:
		return exitFailed
	}
}

func unknownCommand(word string) string {
	if word == "" {
		return "no command given"
	}
	return fmt.Sprintf("'%s' is no command, and no file of arguments", word)
}

// usageError says what is wrong and where to look; nothing was done.
func usageError(stderr io.Writer, command, problem string) int {
	topic := "lastgood help"
	if command != "" {
		topic += " " + command
	}
	_, _ = fmt.Fprintf(stderr, "lastgood: %s. Nothing was done. See `%s`.\n", problem, topic) // nowhere else to say it
	return exitUsage
}

func usage() string {
	var b strings.Builder
	b.WriteString("lastgood activates a new executable of a systemd service, or brings the last good one back.\n\nusage: lastgood COMMAND [--FLAG VALUE]...\n\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %-10s  %s\n", c.name, c.about)
	}
	b.WriteString("  version     show the version of lastgood\n" +
		"  help        show this, or with a command its flags\n\n" +
		"exit codes: 0 done or nothing to do, 1 failed, 2 usage, 3 refused, 4 rolled back\n")
	return b.String()
}

func (c command) usage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lastgood %s: %s\n\nusage: lastgood %s --path PATH [--FLAG VALUE]...\n\n", c.name, c.about, c.name)
	for _, f := range c.flags() {
		fmt.Fprintf(&b, "  --%-19s %-6s %s\n", f.name, valueWord(f.argument), f.argument.About+extent(f.argument))
	}
	fmt.Fprintf(&b, "  --%-19s %-6s %s\n", "json", "", "print the module's JSON object")
	b.WriteString("\nA list is given with commas, or by repeating its flag; a bool as --flag or --flag=false.\n")
	return b.String()
}

func valueWord(a argument) string {
	switch a.Type {
	case typePath:
		return "PATH"
	case typeFloat:
		return "SEC"
	case typeList:
		return "LIST"
	case typeBool:
		return ""
	default:
		return "TEXT"
	}
}

// extent says what an argument may be and what it is when it is not given.
func extent(a argument) string {
	var parts []string
	if a.Required {
		parts = append(parts, "required")
	}
	if a.Choices != nil {
		parts = append(parts, strings.Join(a.Choices, ", "))
	}
	if a.Default != nil {
		parts = append(parts, fmt.Sprintf("default %v", a.Default))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}
