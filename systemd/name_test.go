// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServiceName(t *testing.T) {
	for name, test := range map[string]struct{ unit, want, fails string }{
		"bare":            {unit: "foo", want: "foo.service"},
		"full":            {unit: "foo.service", want: "foo.service"},
		"dot in name":     {unit: "foo.bar", want: "foo.bar.service"},
		"instance":        {unit: "foo@1", want: "foo@1.service"},
		"instance full":   {unit: "foo@a-b.service", want: "foo@a-b.service"},
		"dot in instance": {unit: "foo@1.2", want: "foo@1.2.service"},
		"escaped":         {unit: `foo\x2dbar`, want: `foo\x2dbar.service`},
		"all bytes":       {unit: "a:B-_.9", want: "a:B-_.9.service"},
		"empty":           {unit: "", fails: "nothing stands before"},
		"suffix only":     {unit: ".service", fails: "nothing stands before"},
		"no prefix":       {unit: "@1.service", fails: "nothing stands before"},
		"template":        {unit: "foo@.service", fails: "foo@NAME.service"},
		"slash":           {unit: "/usr/bin/foo", fails: "may stand in it"},
		"space":           {unit: "foo bar", fails: "may stand in it"},
		"glob":            {unit: "foo*", fails: "may stand in it"},
		"other type":      {unit: "foo.timer", fails: "not a service"},
		"too long":        {unit: strings.Repeat("a", 250), fails: "more than 255"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serviceName(test.unit)
			if test.fails != "" {
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}
