// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// requestTime is how long a client may take to ask; one that asks nothing is
// answered after it.
const requestTime = 200 * time.Millisecond

// listener is shared with the timer that hands over to a child.
var listener atomic.Pointer[net.TCPListener]

func closeListener() {
	if l := listener.Load(); l != nil {
		l.Close()
	}
}

func (d *daemon) listen() error {
	if d.is("delay-listen") {
		delay, err := d.duration("delay-listen")
		if err != nil {
			return err
		}
		time.Sleep(delay)
	}
	reject, status, err := d.answers()
	if err != nil {
		return err
	}
	address := os.Getenv("TESTDAEMON_LISTEN")
	if address == "" {
		address = "127.0.0.1:8080"
	}
	bound, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	l := bound.(*net.TCPListener)
	listener.Store(l)
	go d.accept(l, reject, status)
	return nil
}

// answers tells how many connections to reject and what to answer the others.
func (d *daemon) answers() (reject int, status string, err error) {
	status = "200"
	if d.is("status") {
		status = d.behaviours["status"]
	}
	if d.is("reject-conn-first") {
		reject, err = strconv.Atoi(d.behaviours["reject-conn-first"])
	}
	return reject, status, err
}

func (d *daemon) accept(l *net.TCPListener, reject int, status string) {
	for count := 0; ; count++ {
		connection, err := l.AcceptTCP()
		if err != nil {
			return
		}
		if count < reject {
			// Without lingering, closing resets the connection.
			_ = connection.SetLinger(0)
			connection.Close()
			continue
		}
		go d.answer(connection, status)
	}
}

func (d *daemon) answer(connection *net.TCPConn, status string) {
	defer connection.Close()
	// Whatever was asked, and even nothing at all, has the same answer.
	_ = connection.SetReadDeadline(time.Now().Add(requestTime))
	_, _ = connection.Read(make([]byte, 8192))
	body := "testdaemon " + d.version + "\n"
	fmt.Fprintf(connection, "HTTP/1.0 %s Test\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}
