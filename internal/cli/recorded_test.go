package cli

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// recordedAt is the start of the scripts' recordings; further ones start an hour apart.
var recordedAt = time.Date(2026, 11, 20, 14, 41, 0, 0, time.UTC)

// recordings maps script commands to functions that create databases without a trace.
var recordings = map[string]func(*testscript.TestScript, bool, []string){
	"made":     scriptRecord,
	"record09": scriptRecord09,
}

// scriptRecord implements "made DATABASE NODE ID [CLOCK]": one second of a process that launches
// and synchronizes, 20 calls. CLOCK is by how much the node's clock was set.
func scriptRecord(ts *testscript.TestScript, _ bool, args []string) {
	path, node, id := ts.MkAbs(args[0]), args[1], args[2]
	now := recordedAt
	offset := now.Add(-time.Hour).UnixNano()
	if len(args) > 3 {
		d, err := time.ParseDuration(args[3])
		ts.Check(err)
		now, offset = now.Add(time.Minute), offset+int64(d)
	}
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now },
		Session: segment.Session{ID: node + "-" + id, Node: node, Started: now, Mode: "trace", MonoOffset: offset}})
	ts.Check(err)
	launch, _ := events.OpByName("cudaLaunchKernel")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	var calls []events.Call
	for i := range int64(10) {
		at := now.UnixNano() + i*1e8
		calls = append(calls, events.Call{Start: at, Duration: 5000, OnCPU: 5000, PID: 4821, TID: 4821, Weight: 1, Op: launch},
			events.Call{Start: at + 6000, Duration: 9e7, OnCPU: 1e6, Blocked: 89e6, Gap: 1000, GapOnCPU: 1000, PID: 4821, TID: 4821, Weight: 1, Op: sync})
	}
	ops := storetest.Counts{}
	ops.See(calls...)
	now = now.Add(time.Second)
	last := &tick.Tick{Ops: ops.List(), Time: now, Seq: 1, Final: true, Processes: []tick.Process{{PID: 4821, Comm: "python3"}},
		States: []tick.State{{PID: 4821, Memory: tick.Memory{Used: true, Inexact: tick.InexactAttachedLate, GPU: tick.Held{Count: 2, Bytes: 3000, Peak: 4000}, Allocs: 3, Frees: 1},
			Copies: []tick.Copy{{Dir: tick.CopyHostToDevice, Host: tick.HostPinned, Count: 4, Bytes: 400, NS: 5000}}}}}
	ts.Check(errors.Join(db.Batch(&tick.Batch{Calls: calls}), db.Tick(last), db.Close()))
}

// scriptRecord09 implements "record09 DATABASE": a database of ingero 0.9 with one call and one
// event that cannot be converted.
func scriptRecord09(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(fmt.Sprintf(`CREATE TABLE events (timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code);
		INSERT INTO events VALUES (%[1]d, 7, 7, 1, 1, 5000, 1048576, 0, 0), (%[1]d + 1, 7, 7, 3, 1, 10, 0, 0, 0)`, recordedAt.UnixNano()))
	ts.Check(errors.Join(err, db.Close()))
}
