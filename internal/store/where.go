package store

import (
	"strings"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// whereColumns returns the names of the columns that locate a process.
func whereColumns() string {
	names := make([]string, len(tick.WhereFields))
	for i := range tick.WhereFields {
		names[i] = tick.WhereFields[i].Name
	}
	return strings.Join(names, ", ")
}

var (
	sqlProcess = `REPLACE INTO processes (session, pid, ppid, nspid, uid, comm, exe, cgroup, started_ns, ended_ns, mapped_ns, attached_ns, ` +
		whereColumns() + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?` + strings.Repeat(", ?", len(tick.WhereFields)) + `)`
	sqlPod = `INSERT INTO pods (session, uid, name, namespace, phase, gpus, first_ns, last_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
		ON CONFLICT DO UPDATE SET name = ?3, namespace = ?4, phase = ?5, gpus = ?6, last_ns = ?7`
)

// process writes a process.
func (v *saving) process(p *segment.Process) error {
	args := []any{v.id, p.PID, p.PPID, p.NSPID, p.UID, p.Comm, p.Exe, p.Cgroup, null(p.Started), null(p.Ended), null(p.Mapped), null(p.Attached)}
	for i := range tick.WhereFields {
		var value any
		if f := &tick.WhereFields[i]; f.Text != nil {
			if s := *f.Text(&p.Where); s != "" {
				value = s
			}
		} else if n, known := f.Number(&p.Where).Value(); known {
			value = n
		}
		args = append(args, value)
	}
	return v.exec(&sqlProcess, args...)
}

// podsOf writes new and changed pods.
func (v *saving) podsOf(t *tick.Tick) error {
	at := t.Time.UnixNano()
	now := map[string]tick.Pod{}
	for _, p := range t.Pods {
		now[p.UID] = p
		if v.pods[p.UID] == p {
			continue
		}
		if err := v.exec(&sqlPod, v.id, p.UID, p.Name, p.Namespace, p.Phase, p.GPUs, at); err != nil {
			return err
		}
	}
	for uid, p := range v.pods { // until when it existed
		if _, there := now[uid]; !there || t.Final {
			if err := v.exec(&sqlPod, v.id, p.UID, p.Name, p.Namespace, p.Phase, p.GPUs, at); err != nil {
				return err
			}
		}
	}
	v.done = append(v.done, func() { v.pods = now })
	return nil
}
