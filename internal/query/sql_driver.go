package query

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// guarded is the driver for connections that run statements, with its own functions and tables. A
// process has one, since registrations on a driver are permanent.
var guarded = sync.OnceValues(newDriver)

// statements are the running statements by their keys, which the driver's functions and tables get
// as arguments. They read from that statement.
var statements struct {
	sync.Map
	last atomic.Int64
}

// runFunction is the function that runs a statement. Statements may not call it.
const runFunction = "ingero_run"

func register(s *statement) (key string) {
	key = strconv.FormatInt(statements.last.Add(1), 10)
	statements.Store(key, s)
	return key
}

func unregister(key string) { statements.Delete(key) }

// running returns a key's statement.
func running(key string) (*statement, error) {
	if s, ok := statements.Load(key); ok {
		return s.(*statement), nil
	}
	return nil, fmt.Errorf("no statement %q", key)
}

func newDriver() (*sqlite.Driver, error) {
	d := &sqlite.Driver{}
	for _, v := range virtuals {
		if err := d.RegisterModule(v.module(), module{v}); err != nil {
			return nil, err
		}
	}
	for _, f := range sqlFunctions {
		impl := f.impl
		if err := d.RegisterFunction(f.Name, &impl); err != nil {
			return nil, err
		}
	}
	for name, f := range linear {
		if err := d.RegisterFunction(name, &f); err != nil {
			return nil, err
		}
	}
	return d, d.RegisterScalarFunction(runFunction, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		s, err := running(fmt.Sprint(args[0]))
		if err != nil {
			return nil, err
		}
		if err := s.query(); err != nil {
			if s.err == nil {
				s.err = inWords(err)
			}
			return nil, err
		}
		return nil, nil
	})
}

// connector opens connections with the guarded driver.
type connector struct{ name string }

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := guarded()
	if err != nil {
		return nil, err
	}
	return d.Open(c.name)
}

// Driver returns the driver, or an empty one if it could not be created: Connect returns the error.
func (c connector) Driver() driver.Driver {
	d, err := guarded()
	if err != nil {
		return &sqlite.Driver{}
	}
	return d
}
