package query

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingero/internal/store/segment"
)

// Session is one recording.
type Session struct {
	segment.Session
	Updated  time.Time // last tick, up to which the counts go
	Ended    time.Time // zero while it is recording
	State    string    // "running", "ended", "full", "failed", "interrupted"
	Problem  string    // why it did not end normally
	Records  uint64    // calls read from the kernel
	CPU      time.Duration
	LogBytes int64 // size of the files with its calls and waits
	Pruned   bool  // its calls were deleted to make room for later ones
	Cut      bool  // the first of its calls were deleted

	id     int64
	rolled uint64 // number of its calls in rollups
	segs   []segment.Info
}

// AppendCallID appends the id of one of its calls, node:session.number, which is the same in every
// copy of the recording.
func (s *Session) AppendCallID(b []byte, number uint64) []byte {
	b = append(append(b, s.Node...), ':')
	b = append(append(b, s.ID...), '.')
	return strconv.AppendUint(b, number, 10)
}

// hasCall reports whether id is that of call number: node:session.number, or node:number as in 0.9,
// which matches a call of each session of the node.
func (s *Session) hasCall(id string, number uint64) bool {
	rest, ok := strings.CutPrefix(id, s.Node+":")
	if !ok {
		return false
	}
	text := strconv.FormatUint(number, 10)
	return rest == text || rest == s.ID+"."+text
}

// Sessions returns all sessions, latest first. The one being recorded is the latest, even if the
// clock was set back since another one, or shows 1970 because the machine has just booted.
func (r *Reader) Sessions(ctx context.Context) ([]Session, error) {
	return r.sessions(ctx, "", "")
}

// Session returns the session with the given ID, the latest for "".
func (r *Reader) Session(ctx context.Context, id string) (Session, error) {
	found, err := r.sessions(ctx, "WHERE uid = ?1 OR ?1 = ''", "LIMIT 1", id)
	switch {
	case err != nil:
		return Session{}, err
	case len(found) == 0 && id == "":
		return Session{}, fmt.Errorf("%w in %s", ErrNoSession, r.path)
	case len(found) == 0:
		return Session{}, fmt.Errorf("%w %q in %s", ErrNoSession, id, r.path)
	}
	return found[0], nil
}

// sessions returns the selected sessions, latest first.
func (r *Reader) sessions(ctx context.Context, where, limit string, args ...any) ([]Session, error) {
	recording, order := r.recording(), " ORDER BY started_ns DESC, id DESC "
	if recording {
		order = " ORDER BY state = 'running' DESC, started_ns DESC, id DESC "
	}
	segs, err := segment.List(r.files)
	if err != nil {
		return nil, err
	}
	var out []Session
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var s Session
		var started, updated int64
		var ended sql.NullInt64
		err := rows.Scan(&s.id, &s.ID, &s.Node, &started, &updated, &ended, &s.State, &s.Problem, &s.MonoOffset,
			&s.Version, &s.Kernel, &s.Mode, &s.Target, &s.PID, &s.CPU, &s.Records, &s.rolled)
		s.Started, s.Updated, s.Ended = unixTime(started), unixTime(updated), null(ended)
		for i := range segs {
			if segs[i].Session == s.ID {
				s.segs = append(s.segs, segs[i])
				s.LogBytes += segs[i].Bytes
			}
		}
		s.Pruned = len(s.segs) == 0
		s.Cut = !s.Pruned && s.segs[0].Seq > 0
		if s.State == "running" && !recording { // it was killed, and nobody has written since
			s.State, s.Ended = "interrupted", s.Updated
		}
		out = append(out, s)
		return err
	}, `SELECT id, uid, node, started_ns, updated_ns, ended_ns, state, problem, mono_offset_ns,
		version, kernel, mode, target, agent_pid, agent_cpu_ns, records, rolled FROM sessions `+where+order+limit, args...)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return out, nil
}

func unixTime(ns int64) time.Time { return time.Unix(0, ns) }

func null(ns sql.NullInt64) time.Time {
	if !ns.Valid {
		return time.Time{}
	}
	return unixTime(ns.Int64)
}
