//go:build measure || smoke

package incidents

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

const ms = time.Millisecond

// row is a scenario. A seed turns it into a plan.
type row struct {
	name  string
	alone bool // needs both CPUs
	full  bool // its CPU is never idle, however the victim waits for the GPU
	plan  func(s *seed) plan
}

// families lists all scenarios.
var families = []struct {
	name string
	full bool // all rows are full
	rows []row
}{
	{name: "healthy", rows: healthyRows},
	{name: "cpu", full: true, rows: cpuRows},
	{name: "cuda", rows: cudaRows},
	{name: "graph", rows: graphRows},
	{name: "disk", rows: diskRows},
	{name: "memory", rows: memoryRows},
	{name: "stop", rows: stopRows},
	{name: "threads", rows: threadRows},
	{name: "net", rows: netRows},
	{name: "gpu", rows: gpuRows},
	{name: "nccl", rows: ncclRows},
	{name: "xid", rows: xidRows},
	{name: "serving", rows: servingRows},
}

// known maps scenarios that are judged wrong to the reason. They still run and count.
var known = map[string]string{
	"cpu/a hog and a quota":                                 "where both are at work at once, the smaller may be too small to be reported",
	"disk/slow reads for half a second":                     "what a loader waits for the disk is all counted, that of normal steps too",
	"disk/another writes while it saves, before the attach": "saves that were always slow are in part taken for normal",
	"disk/many small writes of another while it saves":      "a fast disk makes the fault too small to be reported",
	"memory/a neighbour has its memory swapped out":         "one long wait may be said to be of the disk",
	"memory/its limit makes it wait for reclaim":            "the kernel may find so much to give up that the fault is too small to be reported",
	"memory/its limit is less than its memory, with swap":   "one long wait may be said to be of the disk",
	"disk/the loader's reads are slow, before the attach":   "what the worker does on a CPU beside its reads is said as well",
}

// plan is one scenario with all its parameters.
type plan struct {
	victim victim
	faults []fault
	length time.Duration // 0: the usual length
	want   []want        // expected chains; empty: none may exist
	also   []string      // rules of other true chains
	// anywhere means that ingero may run on the victim's CPU, since no other CPU is free.
	anywhere bool
}

// victim is a workload, traced from its first CUDA call on.
type victim struct {
	main    string   // script of the main thread: see testdata/victim.c
	threads []string // scripts of further threads
	workers []string // scripts of further processes, which the victim forks
	env     []string
	args    []string
	// program replaces the lab's program; it must keep the clock in the run's log.
	program func(r *run) []string
	// server replaces the program by an inference server.
	server *server
	// service means that a step's length is that of its work, without the time since the
	// previous step.
	service bool
	// noClock means that the program keeps no clock, so its lost time is unknown.
	noClock bool
	roams   bool // runs on all CPUs
	depth   int  // batches in the pipe between workers and loop; 0: 1
	running bool // runs for a second before it is traced
	// prepare sets up what the victim needs before it starts.
	prepare func(r *run)
}

// fault is a disturbance of the victim for a time.
type fault struct {
	from, to time.Duration // since tracing began; from 0: before it, to 0: until the end
	begin    func(r *run) disturber
}

// disturber is an active fault.
type disturber struct {
	pids []int // its processes
	end  func()
}

// want is an expected chain.
type want struct {
	rules   []string         // any of these rules
	culprit func(*run) []int // any of these processes; nil: no culprit
	// with lists rules whose chains may share the same loss, in unknown proportion. They may be
	// absent.
	with []string
	// lost is the truth; nil: how much longer all steps during the faults took than the others.
	lost func(r *run) lost
	// fault is the index of the chain's fault, for the time of the first loss.
	fault int
}

// seed is the random source of a scenario's parameters.
type seed struct {
	*rand.Rand
	number uint64
}

func newSeed(number uint64, name string) *seed {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &seed{rand.New(rand.NewPCG(number, h.Sum64())), number}
}

// between returns a number from a to b.
func (s *seed) between(a, b int) int { return a + s.IntN(b-a+1) }

// span returns a time from a to b, in milliseconds.
func (s *seed) span(a, b time.Duration) time.Duration {
	return time.Duration(s.between(int(a/ms), int(b/ms))) * ms
}

// one returns one of several.
func one[T any](s *seed, of ...T) T { return of[s.IntN(len(of))] }

// byFault returns the processes of the faults.
func byFault(r *run) []int {
	var pids []int
	for i := range r.disturbers {
		pids = append(pids, r.disturbers[i].pids...)
	}
	return pids
}

// byFaultNo returns the processes of one fault.
func byFaultNo(i int) func(*run) []int {
	return func(r *run) []int { return r.disturbers[i].pids }
}

// byItself returns the victim's own processes.
func byItself(r *run) []int { return slices.Clone(r.pids) }
