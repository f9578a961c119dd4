package session

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"ingero/internal/bpf"
	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// frame is a frame of a test's tape.
type frame struct {
	kind tape.Kind
	body []byte
}

// moment returns the time of a section.
func moment(ms uint64) []byte { return number64(1_700_000_000_000_000_000 + ms*1_000_000) }

func tapeOf(t testing.TB, h tape.Header, frames ...frame) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := tape.Create(&out, &h)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		w.Frame(f.kind, f.body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func present() tape.Header {
	return tape.Header{ABI: decode.ABI, Shapes: decode.Shapes(), Rows: []uint16{uint16(events.Catalog[0].Op)}}
}

// whole returns the frames of a session of two ticks.
func whole() []frame {
	return []frame{{tape.Began, moment(0)}, {tape.Poll, moment(10)}, {tape.Tick, moment(1000)},
		{tape.Tables, []byte(`{"Processes":[{"PID":7,"Comm":"job"}]}`)},
		{tape.Poll, moment(1500)}, {tape.Stop, moment(1600)}, {tape.Poll, moment(1600)}, {tape.Tick, moment(1601)},
		{tape.Tables, []byte(`{"Processes":[{"PID":7,"Comm":"job","Ended":"2023-11-14T22:13:21Z"}]}`)}}
}

// playTape plays a tape and returns its ticks.
func playTape(t testing.TB, b []byte) ([]*tick.Tick, error) {
	t.Helper()
	p, err := Play(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	k := &keeper{}
	err = Run(context.Background(), Config{Source: p, Sinks: []tick.Sink{k}})
	return k.ticks, err
}

func TestAPlayMakesTheTicksOfTheTape(t *testing.T) {
	ticks, err := playTape(t, tapeOf(t, present(), whole()...))
	if err != nil {
		t.Fatal(err)
	}
	if len(ticks) != 2 || ticks[0].Final || !ticks[1].Final {
		t.Fatalf("%d ticks", len(ticks))
	}
	if ticks[0].Window.Milliseconds() != 1000 || ticks[1].Window.Milliseconds() != 601 || ticks[1].Seq != 2 {
		t.Errorf("windows %v and %v", ticks[0].Window, ticks[1].Window)
	}
	if p := ticks[1].Processes; len(p) != 1 || p[0].Comm != "job" || p[0].Ended.IsZero() {
		t.Errorf("processes %+v", p)
	}
}

// Records that are too short for their kind are counted: of calls and of processes.
func TestMalformedRecordsAreCounted(t *testing.T) {
	short := func(kind bpf.IngeroRecordKind) []byte { return []byte{uint8(kind), 0, 0, 0} }
	frames := slices.Insert(whole(), 2, frame{tape.Record, short(bpf.IngeroRecordKindRECORD_STACK)},
		frame{tape.Record, short(bpf.IngeroRecordKindRECORD_CALL)}, frame{tape.Life, short(bpf.IngeroRecordKindRECORD_EXIT)})
	ticks, err := playTape(t, tapeOf(t, present(), frames...))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range ticks {
		if !slices.Contains(k.Drops, tick.Drop{Reason: "malformed-record", Count: 3}) {
			t.Errorf("drops %+v", k.Drops)
		}
	}
}

func TestTapesOfOtherLayouts(t *testing.T) {
	old := present()
	old.ABI = decode.ABI + 1
	if _, err := playTape(t, tapeOf(t, old, whole()...)); !errors.Is(err, tape.ErrVersion) {
		t.Errorf("another layout: %v, want %v", err, tape.ErrVersion)
	}
	resized := present()
	resized.Shapes = maps.Clone(resized.Shapes)
	resized.Shapes["call"]++
	if _, err := playTape(t, tapeOf(t, resized, whole()...)); !errors.Is(err, tape.ErrCorrupt) {
		t.Errorf("the same layout with another size: %v, want %v", err, tape.ErrCorrupt)
	}
	unknown := present()
	unknown.Rows = []uint16{0xfffe}
	if _, err := playTape(t, tapeOf(t, unknown, whole()...)); !errors.Is(err, tape.ErrVersion) {
		t.Errorf("an operation that is not known: %v, want %v", err, tape.ErrVersion)
	}

	upgraded := 0
	upgrades[old.ABI] = func(k tape.Kind, b []byte) ([]byte, error) {
		upgraded++
		if k == tape.Tables {
			return bytes.ReplaceAll(b, []byte("job"), []byte("JOB")), nil
		}
		return b, nil
	}
	defer delete(upgrades, old.ABI)
	ticks, err := playTape(t, tapeOf(t, old, whole()...))
	if err != nil || upgraded != len(whole()) || ticks[0].Processes[0].Comm != "JOB" {
		t.Errorf("%d frames were upgraded, %v", upgraded, err)
	}
}

// Each older layout has shorter keys of host sums, with the same meaning. Other frames stay as they are.
func TestFrom4(t *testing.T) {
	key := decode.Bytes(&probes.HostKey{Tgid: 7, Kind: uint8(tick.HostSend), Port: 53, Object: [4]uint64{1, 2}})
	sum := decode.Bytes(&probes.HostSum{Count: 3, Bytes: 4})
	old := slices.Concat(key[:24], sum)
	for _, tt := range []struct {
		name      string
		kind      tape.Kind
		old, want []byte
	}{
		{"a sum", tape.HostSum, old, slices.Concat(key, sum)},
		{"a deleted sum", tape.HostLast, old, slices.Concat(key, sum)},
		{"a sum that is cut", tape.HostSum, old[:20], old[:20]},
		{"a record", tape.Record, old, old},
	} {
		for abi := 1; abi <= 4; abi++ {
			if got, err := upgrades[abi](tt.kind, bytes.Clone(tt.old)); err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%s of layout %d: %v, want %v, error %v", tt.name, abi, got, tt.want, err)
			}
		}
	}
}

func TestTapesThatFitNoSession(t *testing.T) {
	all := whole()
	for _, tt := range []struct {
		name, want string
		frames     []frame
	}{
		{"no beginning", "no start section", all[1:]},
		{"no frame", "no start section", nil},
		{"a time that is none", "without a time", append([]frame{{tape.Began, nil}}, all[1:]...)},
		{"ticks without time between", "tick section that the session did not reach", []frame{{tape.Began, moment(0)}, {tape.Poll, moment(1)}, {tape.Tick, moment(2)}}},
		{"no end", "reached a tick section", []frame{{tape.Began, moment(0)}, {tape.Poll, moment(10)}}},
		{"an answer that is none", "tables", append(all[:3:3], frame{tape.Tables, []byte("{")})},
		{"counts of no row", "row", append(all[:3:3], frame{tape.Count, bytes.Repeat([]byte{9}, 2000)})},
		{"a thread that is cut", "value of", append(all[:3:3], frame{tape.Thread, make([]byte, 20)})},
		{"a sum that is cut", "host-sum of", append(all[:3:3], frame{tape.HostSum, make([]byte, 20)})},
	} {
		_, err := playTape(t, tapeOf(t, present(), tt.frames...))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A tape that is cut off returns an error.
func TestATapeThatIsCut(t *testing.T) {
	all := tapeOf(t, present(), whole()...)
	for n := range all {
		if _, err := playTape(t, all[:n]); err == nil {
			t.Fatalf("%d of %d bytes are a whole tape", n, len(all))
		}
	}
}

func FuzzPlay(f *testing.F) {
	f.Add([]byte{byte(tape.Record), 3, 1, 2, 3, byte(tape.Life), 1, 2})
	f.Add([]byte{byte(tape.Count), 8, 0, 0, 0, 0, 0, 0, 0, 0, byte(tape.Holder), 2, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		frames := []frame{{tape.Began, moment(0)}, {tape.Poll, moment(10)}}
		for len(b) >= 2 {
			n := min(int(b[1]), len(b)-2)
			k := tape.Kind(b[0])
			body := b[2 : 2+n]
			if k.Section() {
				body = moment(uint64(n) * 100)
			}
			if k != tape.End {
				frames = append(frames, frame{k, body})
			}
			b = b[2+n:]
		}
		_, _ = playTape(t, tapeOf(t, present(), frames...))
	})
}
