// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lastgood/lastgood/activation"
)

// execCommand is one element of a(sasbttttuii), as godbus decodes it.
func execCommand(file string, argv ...string) []any {
	return []any{file, argv, false, uint64(1), uint64(1), uint64(0), uint64(0), uint32(7), int32(0), int32(0)}
}

func TestUnitOfEmptyAnswerIsZero(t *testing.T) {
	require.Equal(t, activation.Unit{}, properties{}.unit())
}

func TestUnitOfOtherTypesIsZero(t *testing.T) {
	p := properties{
		"LoadState": 1, "MainPID": "7", "NRestarts": uint64(1), "ExecStart": "x", "InvocationID": "x",
		"TimeoutStopUSec": int64(-1), "LoadError": []any{"x"}, "Job": []any{},
	}
	require.Equal(t, activation.Unit{}, p.unit())
	require.False(t, p.hasJob())
}

func TestUnit(t *testing.T) {
	p := properties{
		"Id": "foo.service", "LoadState": "loaded", "LoadError": []any{"", ""},
		"ActiveState": "active", "SubState": "running", "Result": "success", "UnitFileState": "enabled",
		"Type": "notify", "MainPID": uint32(7), "NRestarts": uint32(2),
		"InvocationID": []byte{0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		"ExecMainCode": int32(1), "ExecMainStatus": int32(203), "ControlGroup": "/system.slice/foo.service",
		"ActiveEnterTimestampMonotonic": uint64(1500), "NeedDaemonReload": true,
		"FragmentPath": "/etc/systemd/system/foo.service", "DropInPaths": []string{"/x.conf"},
		"ExecStart":        [][]any{execCommand("/bin/foo", "foo", "-v")},
		"TimeoutStartUSec": uint64(90_000_000), "TimeoutStopUSec": uint64(math.MaxUint64),
		"Job": []any{uint32(3), "/org/freedesktop/systemd1/job/3"},
	}
	require.Equal(t, activation.Unit{
		Name: "foo.service", LoadState: "loaded",
		ActiveState: "active", SubState: "running", Result: "success", UnitFileState: "enabled",
		Type: "notify", MainPID: 7, NRestarts: 2,
		InvocationID: "ab0102030405060708090a0b0c0d0e0f",
		ExitCode:     1, ExitStatus: 203, ControlGroup: "/system.slice/foo.service",
		ActiveSince: 1500 * time.Microsecond, NeedReload: true,
		FragmentPath: "/etc/systemd/system/foo.service", DropInPaths: []string{"/x.conf"},
		ExecStart:    [][]string{{"/bin/foo", "-v"}},
		StartTimeout: 90 * time.Second,
	}, p.unit())
	require.True(t, p.hasJob())
}

func TestActiveSince(t *testing.T) {
	for state, want := range map[string]time.Duration{
		"active": time.Second, "reloading": time.Second, "refreshing": time.Second,
		"inactive": 0, "failed": 0, "activating": 0, "deactivating": 0,
	} {
		p := properties{"ActiveState": state, "ActiveEnterTimestampMonotonic": uint64(1_000_000)}
		require.Equal(t, want, p.unit().ActiveSince, state)
	}
}

func TestLoadError(t *testing.T) {
	p := properties{"LoadState": "masked", "LoadError": []any{"org.freedesktop.systemd1.UnitMasked", "Unit foo.service is masked."}}
	require.Equal(t, "Unit foo.service is masked.", p.unit().LoadError)
}

func TestInvocationID(t *testing.T) {
	require.Empty(t, properties{"InvocationID": []byte{}}.unit().InvocationID)
	require.Empty(t, properties{"InvocationID": make([]byte, 16)}.unit().InvocationID)
}

func TestExecStart(t *testing.T) {
	for name, test := range map[string]struct {
		in   [][]any
		want [][]string
	}{
		"none":          {[][]any{}, nil},
		"two":           {[][]any{execCommand("/a", "/a"), execCommand("/b", "/b", "x", "y z")}, [][]string{{"/a"}, {"/b", "x", "y z"}}},
		"other argv[0]": {[][]any{execCommand("/a", "daemon", "-x")}, [][]string{{"/a", "-x"}}},
		"no argv":       {[][]any{execCommand("/a")}, [][]string{{"/a"}}},
		"no file":       {[][]any{execCommand("", "x")}, nil},
		"short":         {[][]any{{"/a"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, properties{"ExecStart": test.in}.unit().ExecStart)
		})
	}
}

func TestDuration(t *testing.T) {
	for usec, want := range map[uint64]time.Duration{
		0:                    0,
		1:                    time.Microsecond,
		math.MaxInt64 / 1000: math.MaxInt64 / 1000 * time.Microsecond,
		math.MaxInt64:        0,
		math.MaxUint64:       0,
	} {
		require.Equal(t, want, properties{"T": usec}.duration("T"), usec)
	}
}
