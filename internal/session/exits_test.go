package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

// Only an exit waits for the records that were written before it.
func TestExitsWaitForCalls(t *testing.T) {
	exit := func(pid uint32) tick.ProcEvent { return tick.ProcEvent{Kind: tick.ProcExited, PID: pid} }
	fork := func(pid, peer uint32) tick.ProcEvent {
		return tick.ProcEvent{Kind: tick.ProcForked, PID: pid, Peer: peer}
	}
	type poll struct {
		now        []tick.ProcEvent
		read, made uint64
		want       []tick.ProcEvent
	}
	for _, tt := range []struct {
		name  string
		polls []poll
		rest  []tick.ProcEvent
	}{
		{"all is read", []poll{{[]tick.ProcEvent{fork(1, 2), exit(1)}, 8, 8, []tick.ProcEvent{fork(1, 2), exit(1)}}}, nil},
		{"until it is read", []poll{
			{[]tick.ProcEvent{exit(1), fork(2, 3)}, 8, 16, []tick.ProcEvent{fork(2, 3)}},
			{nil, 12, 24, nil},
			{[]tick.ProcEvent{exit(2)}, 16, 24, []tick.ProcEvent{exit(1)}},
			{[]tick.ProcEvent{exit(3)}, 24, 24, []tick.ProcEvent{exit(2), exit(3)}},
		}, nil},
		{"its number is another's", []poll{
			{[]tick.ProcEvent{exit(1), exit(2)}, 8, 16, nil},
			{[]tick.ProcEvent{fork(3, 4)}, 8, 16, []tick.ProcEvent{fork(3, 4)}},
			{[]tick.ProcEvent{fork(3, 2)}, 8, 16, []tick.ProcEvent{exit(1), exit(2), fork(3, 2)}},
		}, nil},
		{"at the end", []poll{{[]tick.ProcEvent{exit(1), exit(2)}, 8, 16, nil}}, []tick.ProcEvent{exit(1), exit(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var x exits
			for i, p := range tt.polls {
				if diff := cmp.Diff(p.want, x.pass(nil, p.now, p.read, p.made)); diff != "" {
					t.Errorf("poll %d: want -, got +\n%s", i, diff)
				}
			}
			if diff := cmp.Diff(tt.rest, x.rest(nil)); diff != "" {
				t.Errorf("at the end: want -, got +\n%s", diff)
			}
		})
	}
}
