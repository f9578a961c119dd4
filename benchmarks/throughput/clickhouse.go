package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// none is an output without sinks.
func none() ([]tick.Sink, func() error, error) { return nil, func() error { return nil }, nil }

// followers are the outputs that read the recording and so need -record. Each gets its path.
var followers = map[string]func(db string) (end func() error, err error){
	"clickhouse":      func(db string) (func() error, error) { return follow(db, true) },
	"clickhouse-away": func(db string) (func() error, error) { return follow(db, false) },
}

// follow copies a recording to a child process of this program, or to an address without a server.
func follow(db string, there bool) (func() error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	end := func() error { return nil }
	if there {
		takes := exec.Command("/proc/self/exe", "-take", at)
		if err := takes.Start(); err != nil {
			return nil, err
		}
		end = func() error {
			err := takes.Process.Kill()
			_ = takes.Wait() // reports that it was killed
			return err
		}
	}
	c, err := clickhouse.Open("http://"+at, clickhouse.Options{})
	if err != nil {
		return nil, errors.Join(err, end())
	}
	f := clickhouse.Follow(c, clickhouse.FollowOptions{Path: db, Mine: func(*query.Session) bool { return true }})
	return func() error {
		err := errors.Join(f.Close(), end())
		if s := f.State(); there {
			fmt.Printf("%10d calls were copied, %d were lost\n", s.Calls, s.LostCalls)
		}
		return err
	}, nil
}

// take accepts and drops all data, like a ClickHouse that never delays its clients.
func take(at string) error {
	return http.ListenAndServe(at, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) }))
}
