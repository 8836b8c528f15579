// SPDX-License-Identifier: Apache-2.0

package activation_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/lastgood/lastgood/activation"
)

// A program that supervises a daemon by itself adopts the daemon's executable
// and puts a new one under it. supervisor is its own Service.
func ExampleActivate() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	path, src := filepath.Join(folder, "daemon"), filepath.Join(folder, "download")
	writeDaemon(path, "1.0", "ok")
	writeDaemon(src, "2.0", "ok")

	daemon := newSupervisor(path)
	if err := daemon.start(); err != nil {
		log.Fatal(err)
	}
	defer daemon.stop()

	want := activation.NewWant(path, activation.Present)
	want.StateDir, want.LockPath = filepath.Join(folder, "state"), filepath.Join(folder, "lock")
	want.Unit = "daemon"
	want.Health.StableFor = 100 * time.Millisecond
	want.Candidate, err = activation.OpenCandidate(src)
	if err != nil {
		log.Fatal(err)
	}
	defer want.Candidate.Close()

	result, err := activation.Activate(context.Background(), activation.NewHost(), daemon, want)
	fmt.Println(err, result.Outcome, result.Before.Version, "->", result.After.Version)

	result, err = activation.Activate(context.Background(), activation.NewHost(), daemon, want)
	fmt.Println(err, result.Outcome, len(result.Plan))
	// Output:
	// <nil> activated 1.0 -> 2.0
	// <nil> unchanged 0
}
