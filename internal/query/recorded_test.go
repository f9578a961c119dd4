package query

import (
	"errors"
	"testing"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// The error about unrecorded processes lists the recorded ones.
func TestNotRecorded(t *testing.T) {
	for _, tt := range []struct {
		name     string
		e        NotRecordedError
		what, do string
	}{
		{"none was", NotRecordedError{PIDs: []uint32{7}}, "process 7 is not in any recording of that time", "that time has no recorded processes"},
		{"one was", NotRecordedError{PIDs: []uint32{7, 8}, There: []tick.Process{{PID: 12, Comm: "train"}}},
			"processes 7, 8 are not in any recording of that time", "recorded process: 12 (train)"},
		{"many were", NotRecordedError{PIDs: []uint32{7}, There: []tick.Process{{PID: 1}, {PID: 2, Comm: "b"}, {PID: 3}, {PID: 4}, {PID: 5}}},
			"process 7 is not in any recording of that time", "recorded processes: 1, 2 (b), 3 and 2 more"},
		{"a container's number", NotRecordedError{PIDs: []uint32{7}, There: []tick.Process{{PID: 1}, {PID: 4821, NSPID: 7, Comm: "train"}}},
			"process 7 is not in any recording of that time", "process 7 in a container has pid 4821 (train) on this machine"},
	} {
		if tt.e.Error() != tt.what || tt.e.Do() != tt.do {
			t.Errorf("%s: %q, %q", tt.name, tt.e.Error(), tt.e.Do())
		}
	}
}

// One recorded process of the requested ones is enough.
func TestCheckRecorded(t *testing.T) {
	path := t.TempDir() + "/a.db"
	x := record(t, path, segment.Session{ID: "one"})
	x.second()
	if err := x.db.Tick(x.tick(true)); err != nil {
		t.Fatal(err)
	}
	if err := x.db.Close(); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	sessions, err := r.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Processes(t.Context(), "one")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, pids := range [][]uint32{nil, {all[0].PID}, {999_999, all[0].PID}} {
		if err := r.CheckRecorded(t.Context(), sessions, pids); err != nil {
			t.Errorf("%v: %v", pids, err)
		}
	}
	var missing *NotRecordedError
	if err := r.CheckRecorded(t.Context(), sessions, []uint32{999_999}); !errors.As(err, &missing) || len(missing.There) != len(all) {
		t.Errorf("%v, want all that are recorded", err)
	}
}
