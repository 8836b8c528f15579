// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// logSocket is where syslog(3) writes; a variable for tests.
var logSocket = "/dev/log"

// maxLogLine keeps a datagram below every receiver's limit.
const maxLogLine = 2000

// logInvocation tells syslog what was asked, as Ansible's own modules do. Best
// effort: a host without syslog is no error, and a full socket is not waited for.
func logInvocation(m meta, v values) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)                                                                                           //nolint:errcheck // best effort
	_ = unix.Sendto(fd, []byte(logLine(m, v, time.Now())), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: logSocket}) // best effort
}

func logLine(m meta, v values, now time.Time) string {
	var pairs []string
	for name, value := range censored(v) {
		if value != nil {
			pairs = append(pairs, name+"="+logValue(value))
		}
	}
	slices.Sort(pairs)
	prefix := ""
	if m.logInfo != "" {
		prefix = m.logInfo + " "
	}
	const info = 6
	line := fmt.Sprintf("<%d>%s ansible-%s[%d]: %sInvoked with %s",
		facility(m.facility)<<3|info, now.Format(time.Stamp), m.fqcn, os.Getpid(), prefix, strings.Join(pairs, " "))
	line = strings.ToValidUTF8(strings.Map(printable, line), "?")
	return line[:min(maxLogLine, len(line))]
}

// printable keeps an argument from starting a log line of its own.
func printable(r rune) rune {
	if isControl(r) {
		return '?'
	}
	return r
}

func logValue(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return string(raw)
}

// facility is syslog's number for the name that Ansible's settings hold.
func facility(name string) int {
	names := []string{"LOG_KERN", "LOG_USER", "LOG_MAIL", "LOG_DAEMON", "LOG_AUTH", "LOG_SYSLOG", "LOG_LPR", "LOG_NEWS", "LOG_UUCP", "LOG_CRON", "LOG_AUTHPRIV"}
	const user, local0 = 1, 16
	if n := slices.Index(names, name); n > 0 {
		return n
	}
	if digit, ok := strings.CutPrefix(name, "LOG_LOCAL"); ok && len(digit) == 1 && digit[0] >= '0' && digit[0] <= '7' {
		return local0 + int(digit[0]-'0')
	}
	return user
}
