package causal

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// gpuFacts are the facts of a scenario other than host sums: what each adds to the ticks of its
// time. The program is rank 0 of a communicator of two. A missing rank is blocked by a pipe, with
// "of=waits" in a CUDA call, or "of=dead"; "of=21" is as waits, and process 21 waits for the rank, too.
var gpuFacts = map[string]func(t *tick.Tick, f *fact, at int64){
	"throttle": func(t *tick.Tick, f *fact, _ int64) {
		clock, most := int64(900e6), int64(1980e6)
		t.GPUs = append(t.GPUs, tick.GPU{Time: t.Time, Index: 0, Throttle: []string{f.Object}, ClockSM: &clock, ClockSMMax: &most})
	},
	"gpu": func(t *tick.Tick, f *fact, _ int64) { // the one that a process uses
		n, _ := strconv.Atoi(f.Object)
		t.GPUs = append(t.GPUs, tick.GPU{Time: t.Time, Index: n, Bus: fmt.Sprintf("0000:%d:00.0", 75+n)})
		for i := range t.Processes {
			if t.Processes[i].PID == f.PID {
				t.Processes[i].Devices = f.Object
			}
		}
	},
	"divided": func(t *tick.Tick, _ *fact, _ int64) {
		t.GPUs = append(t.GPUs, tick.GPU{Time: t.Time, MIG: true})
	},
	"neighbour": func(t *tick.Tick, f *fact, _ int64) {
		launch, _ := events.OpByName("cudaLaunchKernel")
		t.Processes = append(t.Processes, tick.Process{PID: f.PID, Comm: f.Comm, Where: tick.Where{Devices: f.Object}})
		t.Ops = append(t.Ops, tick.Op{PID: f.PID, Op: launch, Last: tick.Counts{Calls: f.Count}})
	},
	"late": func(t *tick.Tick, f *fact, at int64) {
		t.Processes = append(t.Processes, tick.Process{PID: f.PID, Comm: f.Comm})
		for from := (at - int64(t.Window)) / f.every * f.every; from < at; from += f.every {
			t.Lates = append(t.Lates, tick.Straggler{Comm: 1, From: start + from, To: start + from + int64(f.NS), Rank: tick.Rank{Rank: 1, PID: f.PID}})
		}
	},
	"missing": func(t *tick.Tick, f *fact, at int64) {
		t.Processes = append(t.Processes, tick.Process{PID: f.PID, Comm: f.Comm})
		m := tick.Missing{Rank: tick.Rank{Rank: 1, PID: f.PID}, Lives: true, Now: tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPipe}}
		c := tick.RollCall{Comm: 1, Ranks: 2, Seq: 9, Since: start + f.from, Entered: []tick.Rank{{PID: 7}}}
		if other, _ := strconv.Atoi(f.Object); other != 0 { // another rank waits, too
			c.Comm, c.Ranks, c.Entered = uint64(other), 3, append(c.Entered, tick.Rank{Rank: 2, PID: uint32(other)})
		}
		switch f.Object {
		case "":
		case "dead":
			m.Lives, m.End = false, tick.Ending{Time: start + f.from, Signal: 9}
		default:
			m.Open.Op, _ = events.OpByName("cudaStreamSynchronize")
		}
		for n := range max(f.Count, 1) { // of as many communicators
			x := c
			x.Comm, x.Seq, x.Missing = c.Comm+n, c.Seq+n, []tick.Missing{m}
			t.RollCalls = append(t.RollCalls, x)
		}
	},
	"request": func(t *tick.Tick, f *fact, at int64) {
		for from := (at - int64(t.Window)) / f.every * f.every; from < at; from += f.every {
			took := time.Duration(f.NS)
			t.Requests = append(t.Requests, tick.Request{PID: f.PID, TID: f.tid, Arrived: start + from, First: took, Last: took, Post: true, Status: 200})
		}
	},
	"xid": func(t *tick.Tick, f *fact, at int64) {
		t.Xids = append(t.Xids, tick.Xid{Time: start + f.from, Code: 31, Bus: "0000:75:00", Burst: 1, At: 1, PID: f.PID})
	},
	"lost": func(t *tick.Tick, f *fact, _ int64) { // names no process
		x := tick.Xid{Time: start + f.from, Code: 79, Bus: "0000:75:00", Msg: "GPU has fallen off the bus.", Burst: 1, At: 1}
		if code, err := strconv.Atoi(f.Object); err == nil {
			x.Code, x.Msg = uint32(code), ""
		}
		t.Xids = append(t.Xids, x)
	},
	"failed": func(t *tick.Tick, f *fact, _ int64) {
		s, code := &t.States[0], int32(700)
		if f.PID != 0 { // another process, which goes on
			t.States = append(t.States, tick.State{PID: f.PID})
			s, code = &t.States[len(t.States)-1], 46
		}
		if other, err := strconv.Atoi(f.Object); err == nil {
			code = int32(other)
		}
		s.Errors = tick.List[tick.CallError]{First: []tick.CallError{{Op: 0x0110, Code: code, Count: f.Count}}, All: 1}
	},
}

// ranked makes the program one of two ranks.
func ranked(t *tick.Tick) {
	if len(t.States) == 0 {
		t.States = []tick.State{{PID: 7}}
	}
	comm := tick.Comm{Number: 1, ID: 1, Rank: 0, Ranks: 2, Began: start}
	t.States[0].Comms = tick.List[tick.Comm]{First: []tick.Comm{comm}, All: 1}
}

// A process's device numbers follow the devices that it may see.
func TestPhysical(t *testing.T) {
	for _, tt := range []struct {
		visible string
		ordinal int16 // plus one
		want    string
	}{{"", 1, "0"}, {"", 3, "2"}, {"", 0, ""}, {"3,1", 2, "1"}, {"3, 1", 2, "1"}, {"3,1", 0, ""}, {"GPU-ab", 1, "GPU-ab"}, {"3", 0, "3"}, {"3", 2, ""}} {
		if got := physical(tt.visible, tt.ordinal); got != tt.want {
			t.Errorf("%d of %q: %q, want %q", tt.ordinal, tt.visible, got, tt.want)
		}
	}
}

// Processes in different containers and jobs number GPUs differently.
func TestDeviceIn(t *testing.T) {
	const a, b = "aa000000-1111-2222-3333-444444444444", "bb000000-1111-2222-3333-444444444444"
	two := []tick.GPU{{Index: 0, UUID: "GPU-" + a}, {Index: 1, UUID: "GPU-" + b}}
	uses := func(device int16) tick.List[tick.Stream] {
		return tick.List[tick.Stream]{First: []tick.Stream{{Device: device, Launches: 9}}, All: 1}
	}
	for _, tt := range []struct {
		name  string
		gpus  []tick.GPU
		where tick.Where
		state *tick.State
		want  string
	}{
		{"its own number", two, tick.Where{}, &tick.State{Streams: uses(2)}, "1"},
		{"visible GPUs", two, tick.Where{Devices: "1"}, &tick.State{Streams: uses(1)}, "1"},
		{"a visible UUID", two, tick.Where{Devices: "GPU-bb"}, nil, "1"},
		{"unknown", two, tick.Where{}, &tick.State{Streams: uses(0)}, ""},
		{"unknown, of one", two[:1], tick.Where{}, nil, "0"},
		{"unknown, of one that is lost", []tick.GPU{{Lost: true}}, tick.Where{}, nil, ""},
		{"unknown, of an unknown number", nil, tick.Where{}, nil, "0"},
		{"a rank's, unknown, of an unknown number", nil, tick.Where{Rank: tick.Numbered(3)}, nil, ""},
		{"in a container", two, tick.Where{Runtime: "docker"}, &tick.State{Streams: uses(1)}, ""},
		{"in a batch job", two, tick.Where{Job: "4711", Devices: "0"}, &tick.State{Streams: uses(1)}, ""},
		{"in a container, with its UUID", two, tick.Where{Runtime: "docker"}, &tick.State{Streams: uses(1), Devices: []tick.Device{{Device: 1, UUID: b}}}, "1"},
		{"without the machine's GPUs", nil, tick.Where{}, &tick.State{Streams: uses(1), Devices: []tick.Device{{Device: 1, UUID: b}}}, "GPU-" + b},
		{"several", two, tick.Where{}, &tick.State{Streams: tick.List[tick.Stream]{First: append(uses(1).First, uses(2).First...)}}, ""},
	} {
		if got := deviceIn(&tick.Tick{GPUs: tt.gpus}, &tick.Process{Where: tt.where}, tt.state); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
