package xid

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// The process of a fault is found by number and name, with the host's number or its container's. A
// number whose process has another name finds no process.
func TestVictim(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	host := tick.Process{PID: 1234, NSPID: 1234, Comm: "python3", Started: before}
	inside := tick.Process{PID: 88001, NSPID: 1234, Comm: "python3", Started: before}
	again := tick.Process{PID: 88002, NSPID: 1234, Comm: "python3", Started: before}
	vllm := tick.Process{PID: 1234, NSPID: 1234, Comm: "vllm", Started: before}
	tests := []struct {
		name   string
		msg    string
		traced []tick.Process
		others []tick.Process
		names  []string // threads of other processes
		want   uint32
	}{
		{name: "no process", msg: "GPU has fallen off the bus.", traced: []tick.Process{host}},
		{name: "traced", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{host}, want: 1234},
		{name: "not traced", msg: "pid=1234, name=python3, Ch 1", others: []tick.Process{host}, want: 1234},
		{name: "number alone", msg: "pid=1234, Ch 1", traced: []tick.Process{host}, want: 1234},
		{name: "in a container", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{inside}, want: 88001},
		{name: "in a container, the host's is another", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{inside}, others: []tick.Process{vllm}, want: 88001},
		{name: "in one of two containers", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{inside, again}},
		{name: "host and container", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{inside, host}, want: 1234},
		{name: "host and container, no name, the host's untraced", msg: "pid=1234, Ch 1", traced: []tick.Process{inside}, others: []tick.Process{vllm}, want: 88001},
		{name: "another's number", msg: "pid=1234, name=python3, Ch 1", others: []tick.Process{vllm}},
		{name: "a thread's name", msg: "pid=1234, name=cuda-EvtHandlr, Ch 1", others: []tick.Process{vllm}, names: []string{"vllm", "cuda-EvtHandlr"}, want: 1234},
		{name: "a traced thread's name that is gone", msg: "pid=1234, name=worker, Ch 1", traced: []tick.Process{vllm}, want: 1234},
		{name: "a name with a comma", msg: "pid=1234, name=a, b, Ch 1", others: []tick.Process{{PID: 1234, Comm: "a, b", Started: before}}, want: 1234},
		{name: "a long name", msg: "pid=1234, name=a-name-of-twenty-one, Ch 1", others: []tick.Process{{PID: 1234, Comm: "a-name-of-twent", Started: before}}, want: 1234},
		{name: "gone", msg: "pid=1234, name=python3, Ch 1"},
		{name: "the number was given again", msg: "pid=1234, name=python3, Ch 1", others: []tick.Process{{PID: 1234, Comm: "python3", Started: after}}},
		{name: "ended long before", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{{PID: 1234, Comm: "python3", Started: before, Ended: now.Add(-time.Minute)}}},
		{name: "ended by the fault", msg: "pid=1234, name=python3, Ch 1", traced: []tick.Process{{PID: 1234, Comm: "python3", Started: before, Ended: now.Add(time.Second)}}, want: 1234},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := tick.Xid{Time: now.UnixNano()}
			x.SetMessage(tt.msg)
			Victim(&x, tt.traced, func(pid uint32) (tick.Process, []string, bool) {
				for _, p := range tt.others {
					if p.PID == pid {
						return p, tt.names, true
					}
				}
				return tick.Process{}, nil, false
			})
			if x.PID != tt.want || x.PID != 0 && x.Comm == "" {
				t.Errorf("got %d (%s), want %d", x.PID, x.Comm, tt.want)
			}
		})
	}
}
