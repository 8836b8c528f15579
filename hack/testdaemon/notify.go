// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
)

// ready tells whoever waits, systemd or the parent of a fork, that the daemon
// answers.
func ready() error {
	if os.Getenv(forkedEnv) != "" {
		pipe := os.NewFile(3, "parent")
		if _, err := pipe.Write([]byte{1}); err != nil {
			return err
		}
		return pipe.Close()
	}
	return notify("READY=1")
}

func notify(message string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(message))
	return err
}
