package export_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var began = time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)

// header is the columns, in order.
const header = "id,node,session,source,op,pid,tid,timestamp,duration_ns,oncpu_ns,runnable_ns,throttled_ns,blocked_ns," +
	"gap_ns,gap_oncpu_ns,gap_runnable_ns,gap_throttled_ns,gap_blocked_ns,result,failed,nested,parent,weight,stack,device,tag," +
	"arg0,arg1,arg2,arg3,comm,cgroup,function,container,container_name,pod,namespace,job,rank"

// launched is a function that some of the calls launch.
var launched = events.Function{PID: 4821, Handle: 7777, Name: "_ZN3gpu3addIfEEvPT_i"}

// placed is the location of one of the processes.
var placed = tick.Where{Container: "3f2b8c1d9e7a", ContainerName: "trainer", Pod: "train-0", Namespace: "ml", Job: "4711", Rank: tick.Numbered(0), QoS: "burstable"}

// calls returns calls of every kind with random fields.
func calls(r *rand.Rand, from time.Time, n int) []events.Call {
	out := make([]events.Call, n)
	for i := range out {
		ns := func() int64 { return r.Int64N(1e9) }
		out[i] = events.Call{Start: from.UnixNano() + int64(i)*1e6, Duration: ns(), OnCPU: ns(), Runnable: ns(), Throttled: ns(), Blocked: ns(),
			Gap: ns() * int64(r.IntN(2)), GapOnCPU: ns(), GapRunnable: ns(), GapThrottled: ns(), GapBlocked: ns(),
			Args: [4]uint64{r.Uint64(), r.Uint64(), 0, 7}, PID: 4821 + uint32(r.IntN(3)), TID: r.Uint32(), Tag: r.Uint32(),
			Result: int32(r.Uint32()), Weight: 1 + uint32(r.IntN(3)), Stack: uint32(r.IntN(2)) * r.Uint32(), Device: int16(r.IntN(3)),
			Op:    events.Catalog[r.IntN(len(events.Catalog))].Op,
			Flags: events.CallFlags(r.Uint32()) & (events.CallUnseen | events.CallNoLedger | 0x3f)}
		if r.IntN(3) == 0 {
			out[i].Args[0], out[i].Op = launched.Handle, events.Catalog[0].Op
		}
		if r.IntN(10) == 0 {
			out[i].Op = 0x6fff // unknown operation
		}
		if out[i].Flags&events.CallNested != 0 {
			out[i].Parent = events.Catalog[0].Op
		}
	}
	return out
}

// record makes a database of two sessions with n calls each.
func record(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	r := rand.New(rand.NewPCG(7, 7))
	for i, id := range []string{"gpu-7-20261121T144100-01020304", "elsewhere"} {
		now := began.Add(time.Duration(i) * time.Hour)
		db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now },
			Session: segment.Session{ID: id, Node: "gpu-7", Started: now}})
		if err != nil {
			t.Fatal(err)
		}
		all := calls(r, now, n)
		now = now.Add(time.Duration(n) * time.Millisecond)
		last := &tick.Tick{Time: now, Started: began, Seq: 1, Final: true, Processes: []tick.Process{
			{PID: 4821, Comm: "python3, \"the\" one", Cgroup: "/a", Where: placed}, {PID: 4822, Comm: "x", Where: tick.Where{Cmdline: "only in " + id}}}}
		if err := errors.Join(db.Batch(&tick.Batch{Calls: all, Functions: []events.Function{launched}}), db.Tick(last), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func open(t *testing.T, path string) *query.Reader {
	t.Helper()
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// fields returns a call's CSV fields; unknown values are "".
func fields(id, session string, c *events.Call) []string {
	has := func(ok bool, v any) string {
		if !ok {
			return ""
		}
		return fmt.Sprint(v)
	}
	is := func(f events.CallFlags) bool { return c.Flags&f != 0 }
	done := !is(events.CallUnmeasured)
	parts := done && !is(events.CallNoLedger)
	all := parts && !is(events.CallLedgerPartial)
	gap := done && c.Gap > 0
	allGap := gap && !is(events.CallGapPartial)
	comm := map[uint32][2]string{4821: {"python3, \"the\" one", "/a"}, 4822: {"x", ""}}[c.PID]
	keep, tag := events.MaxArgs, true
	if r := c.Op.Row(); r != nil {
		keep, tag = len(r.Keep), r.Tag != ""
	}
	out := []string{id, "gpu-7", session, c.Op.Source().String(), c.Op.String(), fmt.Sprint(c.PID), fmt.Sprint(c.TID), fmt.Sprint(c.Start),
		has(done, c.Duration), has(all, c.OnCPU), has(parts, c.Runnable), has(parts, c.Throttled), has(all, c.Blocked),
		has(gap, c.Gap), has(allGap, c.GapOnCPU), has(gap, c.GapRunnable), has(gap, c.GapThrottled), has(allGap, c.GapBlocked),
		has(done, c.Result), has(done, is(events.CallFailed)), fmt.Sprint(is(events.CallNested)), has(c.Parent != 0, c.Parent),
		fmt.Sprint(c.Weight), has(c.Stack != 0, c.Stack), has(c.Device != 0, c.Device-1), has(tag, c.Tag)}
	for i, a := range c.Args {
		out = append(out, has(i < keep && (a != 0 || !is(events.CallArgsPartial)), a))
	}
	row, function := c.Op.Row(), ""
	if is(events.CallInherited) {
		row = c.Parent.Row()
	}
	if handle, _ := c.Value(events.RoleFunc); row != nil && row.Class == events.ClassLaunch && handle == launched.Handle && c.PID == launched.PID {
		function = "void gpu::add<float>(float*, int)"
	}
	out = append(out, comm[0], comm[1], function)
	if c.PID == 4821 {
		return append(out, "3f2b8c1d9e7a", "trainer", "train-0", "ml", "4711", "0")
	}
	return append(out, "", "", "", "", "", "")
}

// want returns the expected content of an export.
func want(t *testing.T, r *query.Reader, f query.Filter) [][]string {
	t.Helper()
	var rows [][]string
	_, err := r.Each(context.Background(), query.Filter{Session: query.AllSessions}, func(s *query.Session, c *events.Call, number uint64) bool {
		at := time.Unix(0, c.Start)
		in := (len(f.PIDs) == 0 || c.PID == f.PIDs[0]) && (len(f.Ops) == 0 || c.Op == f.Ops[0]) && (f.Session == query.AllSessions || f.Session == s.ID) &&
			!at.Before(f.From) && (f.To.IsZero() || at.Before(f.To))
		if in {
			rows = append(rows, fields(fmt.Sprintf("gpu-7:%s.%d", s.ID, number), s.ID, c))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func fromCSV(t *testing.T, r *query.Reader, f query.Filter) ([][]string, *export.Result) {
	t.Helper()
	var b bytes.Buffer
	res, err := export.CSV(context.Background(), &b, r, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || strings.Join(rows[0], ",") != header {
		t.Fatalf("header %q, %v", rows[0], err)
	}
	return rows[1:], res
}

// fromParquet reads a file with the library's own reader, value by value.
func fromParquet(t *testing.T, r *query.Reader, f query.Filter) ([][]string, *export.Result) {
	t.Helper()
	var b bytes.Buffer
	res, err := export.Parquet(context.Background(), &b, r, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var unsigned []bool
	for _, c := range file.Schema().Fields() {
		names = append(names, c.Name())
		lt := c.Type().LogicalType()
		unsigned = append(unsigned, lt != nil && strings.Contains(lt.String(), "false"))
	}
	if got := strings.Join(names, ","); got != header {
		t.Fatalf("columns %s", got)
	}
	var out [][]string
	for _, g := range file.RowGroups() {
		rows := g.Rows()
		buf := make([]parquet.Row, 100)
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				var line []string
				for i, v := range row {
					switch {
					case v.IsNull():
						line = append(line, "")
					case unsigned[i] && v.Kind() == parquet.Int32:
						line = append(line, fmt.Sprint(v.Uint32()))
					case unsigned[i]:
						line = append(line, fmt.Sprint(v.Uint64()))
					default:
						line = append(line, v.String())
					}
				}
				out = append(out, line)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = rows.Close()
	}
	return out, res
}

func fromSQLite(t *testing.T, r *query.Reader, f query.Filter) ([][]string, *export.Result) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.sqlite")
	res, err := export.SQLite(context.Background(), path, r, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query("SELECT * FROM events ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	names, err := rows.Columns()
	if got := strings.Join(names, ","); got != header || err != nil {
		t.Fatalf("columns %s, %v", got, err)
	}
	var out [][]string
	for rows.Next() {
		values, to := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		line := make([]string, len(names))
		for i, v := range values {
			n, whole := v.(int64)
			switch {
			case v == nil:
			case whole && strings.HasPrefix(names[i], "arg"):
				line[i] = fmt.Sprint(uint64(n)) // the same bits
			case whole && (names[i] == "failed" || names[i] == "nested"):
				line[i] = fmt.Sprint(n == 1)
			default:
				line[i] = fmt.Sprint(v)
			}
		}
		out = append(out, line)
	}
	return out, res
}

// Every format has every column of every selected call, with its number in its session.
func TestFormats(t *testing.T) {
	r := open(t, record(t, 800))
	all := query.Filter{Session: query.AllSessions}
	part := all
	part.From, part.To = began.Add(200*time.Millisecond), began.Add(time.Hour+500*time.Millisecond)
	process, op, one := all, all, all
	process.PIDs, op.Ops, one.Session = []uint32{4822}, []events.Op{events.Catalog[3].Op}, "elsewhere"
	for name, read := range map[string]func(*testing.T, *query.Reader, query.Filter) ([][]string, *export.Result){
		"csv": fromCSV, "parquet": fromParquet, "sqlite": fromSQLite} {
		for what, f := range map[string]query.Filter{"all": all, "a time": part, "a process": process, "an operation": op, "a session": one} {
			t.Run(name+"/"+what, func(t *testing.T) {
				got, res := read(t, r, f)
				expected := want(t, r, f)
				if len(expected) == 0 || res.Calls != uint64(len(expected)) {
					t.Errorf("it says that it wrote %d calls, want %d", res.Calls, len(expected))
				}
				if d := cmp.Diff(expected, got); d != "" {
					t.Errorf("-want +got:\n%.3000s", d)
				}
			})
		}
	}
}

// The file of plain rows has the other data of its sessions only, and cannot be mistaken for a
// database to record to.
func TestSQLiteTables(t *testing.T) {
	r := open(t, record(t, 10))
	path := filepath.Join(t.TempDir(), "out.sqlite")
	if _, err := export.SQLite(context.Background(), path, r, query.Filter{Session: "elsewhere"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var uid string
	var processes, indexes int
	var mode string
	err = db.QueryRow(`SELECT (SELECT group_concat(uid) FROM sessions), (SELECT count(*) FROM processes),
		(SELECT count(*) FROM sqlite_schema WHERE tbl_name = 'events' AND type = 'index'), (SELECT journal_mode FROM pragma_journal_mode)`).Scan(&uid, &processes, &indexes, &mode)
	if err != nil || uid != "elsewhere" || processes != 2 || indexes != 2 || mode == "wal" {
		t.Errorf("sessions %q, %d processes, %d indexes, journal %s, %v", uid, processes, indexes, mode, err)
	}
	var free int
	content, unreadable := os.ReadFile(path)
	if err := errors.Join(unreadable, db.QueryRow("PRAGMA freelist_count").Scan(&free)); err != nil || free != 0 ||
		!bytes.Contains(content, []byte("only in elsewhere")) || bytes.Contains(content, []byte("only in gpu-7")) {
		t.Errorf("%d free pages, or content of another session; %v", free, err)
	}
	if _, err := query.Open(t.Context(), path); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("it opens as a database: %v", err)
	}
}

// broken fails to write after a while.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

// A failing write is an error.
func TestCannotWrite(t *testing.T) {
	r := open(t, record(t, 3000))
	f := query.Filter{Session: query.AllSessions}
	if _, err := export.CSV(context.Background(), &broken{10_000}, r, f, nil); !errors.Is(err, errBroken) {
		t.Errorf("CSV: %v", err)
	}
	if _, err := export.Parquet(context.Background(), &broken{10_000}, r, f, nil); !errors.Is(err, errBroken) {
		t.Errorf("Parquet: %v", err)
	}
	if _, err := export.SQLite(context.Background(), filepath.Join(t.TempDir(), "no", "x"), r, f, nil); err == nil {
		t.Error("SQLite: no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := export.CSV(ctx, io.Discard, r, f, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// Progress counts the calls of all recordings together.
func TestProgress(t *testing.T) {
	r := open(t, record(t, 35_000))
	var reported []uint64
	_, err := export.CSV(context.Background(), io.Discard, r, query.Filter{Session: query.AllSessions}, func(n uint64) { reported = append(reported, n) })
	if d := cmp.Diff([]uint64{1 << 16}, reported); d != "" || err != nil {
		t.Error(d, err)
	}
}
