package query

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"modernc.org/sqlite/vtab"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// whereColumns are the columns of processes that locate a process.
var whereColumns = func() string {
	names := make([]string, len(tick.WhereFields))
	for i := range tick.WhereFields {
		names[i] = tick.WhereFields[i].Name
	}
	return strings.Join(names, ", ")
}()

// Processes returns a session's processes by pid; "" is the latest session.
func (r *Reader) Processes(ctx context.Context, session string) ([]tick.Process, error) {
	s, err := r.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	return r.processes(ctx, s.id)
}

func (r *Reader) processes(ctx context.Context, id int64) (out []tick.Process, err error) {
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var p tick.Process
		var started, ended, mapped, attached sql.NullInt64
		into, done := whereValues(&p.Where)
		err := rows.Scan(append([]any{&p.PID, &p.PPID, &p.NSPID, &p.UID, &p.Comm, &p.Exe, &p.Cgroup, &started, &ended, &mapped, &attached}, into...)...)
		done()
		p.Started, p.Ended, p.Mapped, p.Attached = null(started), null(ended), null(mapped), null(attached)
		out = append(out, p)
		return err
	}, "SELECT pid, ppid, nspid, uid, comm, exe, cgroup, started_ns, ended_ns, mapped_ns, attached_ns, "+whereColumns+" FROM processes WHERE session = ? ORDER BY pid", id)
	return out, err
}

// whereValues returns scan targets for whereColumns; done then fills in w.
func whereValues(w *tick.Where) (into []any, done func()) {
	texts := make([]sql.NullString, len(tick.WhereFields))
	numbers := make([]sql.Null[uint32], len(tick.WhereFields))
	for i := range tick.WhereFields {
		if tick.WhereFields[i].Text != nil {
			into = append(into, &texts[i])
		} else {
			into = append(into, &numbers[i])
		}
	}
	return into, func() {
		for i := range tick.WhereFields {
			f := &tick.WhereFields[i]
			if f.Text != nil {
				*f.Text(w) = texts[i].String
			} else if numbers[i].Valid {
				*f.Number(w) = tick.Numbered(numbers[i].V)
			}
		}
	}
}

// eventWhere are those of whereColumns that events has, too.
var eventWhere = func() (names []string) {
	for i := range tick.WhereFields {
		if f := &tick.WhereFields[i]; f.Beside {
			names = append(names, f.Name)
		}
	}
	return names
}()

// eventColumns are the columns of events.
var eventColumns = func() []eventColumn {
	out := callColumns[:len(callColumns):len(callColumns)]
	for at, name := range eventWhere {
		i := slices.IndexFunc(tick.WhereFields, func(f tick.WhereField) bool { return f.Name == name })
		f := &tick.WhereFields[i]
		c := eventColumn{SQLColumn{name, "TEXT", "of the process: " + f.About}, func(b *eventBatch, _ int, c *events.Call) vtab.Value {
			if where := b.procs[c.PID].where; where != nil {
				return where[at]
			}
			return nil
		}}
		if f.Number != nil {
			c.Type = "INTEGER"
		}
		out = append(out, c)
	}
	return out
}()

// scanProcess reads a process for rows of events.
func scanProcess(rows *sql.Rows) (pid uint32, p process, err error) {
	var comm, cgroup string
	values := make([]any, len(eventWhere))
	into := []any{&pid, &comm, &cgroup}
	for i := range values {
		into = append(into, &values[i])
	}
	err = rows.Scan(into...)
	p.comm, p.cgroup = comm, cgroup
	for _, v := range values {
		p.where = append(p.where, v)
	}
	return pid, p, err
}

// sqlEventProcesses selects what scanProcess reads.
var sqlEventProcesses = "SELECT pid, comm, cgroup, " + strings.Join(eventWhere, ", ") + " FROM processes WHERE session = ?"
