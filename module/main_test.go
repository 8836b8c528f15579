// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The real main, under each name that it is called by.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lastgood":                     main,
		"daemon_binary":                main,
		"AnsiballZ_daemon_binary":      main,
		"AnsiballZ_daemon_binary_info": main,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
