package session

import (
	"maps"
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
)

// The requests to the servers of traced jobs are measured, whether or not the server itself is
// traced, and those to other jobs' are not.
func TestServersOf(t *testing.T) {
	process := func(pid, parent uint32, line string) tick.Process {
		return tick.Process{PID: pid, PPID: parent, Where: tick.Where{Cmdline: line}}
	}
	launcher, router := process(20, 1, "text-generation-launcher --model-id m"), process(21, 20, "text-generation-router --port 80")
	shard := process(22, 20, "text-generation-server serve m")
	vllm, engine := process(10, 1, "vllm serve m"), process(11, 10, "VLLM::EngineCore")
	over := vllm
	over.Ended = time.Unix(1, 0)
	train := process(30, 1, "python3 train.py")
	for name, tt := range map[string]struct {
		of             RequestsOf
		traced, others []tick.Process
		want           []uint32
	}{
		"a traced server":                       {"", []tick.Process{vllm, engine, train}, nil, []uint32{10}},
		"one that has ended":                    {"", []tick.Process{over, engine}, nil, nil},
		"one without CUDA":                      {"", []tick.Process{shard}, []tick.Process{launcher, router, vllm}, []uint32{21}},
		"another job's":                         {"", []tick.Process{train}, []tick.Process{vllm, launcher, router}, nil},
		"all traced processes":                  {RequestsOfAll, []tick.Process{train, engine, over}, nil, []uint32{11, 30}},
		"all, and the server of a traced shard": {RequestsOfAll, []tick.Process{shard}, []tick.Process{launcher, router}, []uint32{21, 22}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &requests{of: tt.of}
			if got := slices.Sorted(maps.Keys(q.serversOf(tt.traced, tt.others))); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
