package session

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// costly is a source whose probes cost 2 us for timed calls, 0.5 us for others, none for free.
type costly struct {
	share   float64
	spent   Spent
	shed    []govern.Change
	hot     []events.Op
	counted []uint32
	free    events.Op
	asked   []events.Op // operations whose cost was requested
	lacks   []int       // steps whose possibility was requested
}

func (c *costly) ProbeCost(op events.Op) (timed, counted uint64, known bool) {
	c.asked = append(c.asked, op)
	if op == c.free {
		return 0, 0, true
	}
	return 2000, 500, true
}

func (c *costly) CountLaunches(pids []uint32) error {
	c.counted = pids
	return nil
}

func (c *costly) MaxOverhead() float64  { return c.share }
func (c *costly) Spent() (Spent, error) { return c.spent, nil }

func (c *costly) Lacks(step int) bool {
	c.lacks = append(c.lacks, step)
	return govern.Steps[step].Part == govern.Twice
}

func (c *costly) Shed(_ time.Time, x govern.Change, hot []events.Op) error {
	c.shed, c.hot = append(c.shed, x), hot
	return nil
}

// at returns a tick in which the first of two processes makes 100,000 launches, each with a
// synchronization, and the other nothing; its threads had two CPUs.
func at(t *testing.T, second int) *tick.Tick {
	t.Helper()
	launch, _ := events.OpByName("cudaLaunchKernel")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	n := uint64(second) * 2e9
	return &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second, Records: uint64(second) * 1e5,
		Self:      tick.Self{CPU: time.Duration(second) * 30 * time.Millisecond},
		Processes: []tick.Process{{PID: 1}, {PID: 2}, {PID: 3, Ended: time.Unix(1, 0)}},
		Threads:   []tick.Thread{{PID: 1, TID: 10, InCalls: tick.Times{OnCPU: n / 2}}, {PID: 1, TID: 11, Between: tick.Times{OnCPU: n / 2}}, {PID: 1, TID: 12, Enrolled: true, Between: tick.Times{OnCPU: n}}},
		Ops: []tick.Op{{PID: 1, Op: launch, Last: tick.Counts{Calls: 100_000, Done: 100_000}}, {PID: 1, Op: sync, Last: tick.Counts{Calls: 100_000, Unmeasured: 100_000}},
			{PID: 2, Op: sync, Last: tick.Counts{Calls: 10}}, {PID: 3, Op: sync, Last: tick.Counts{Calls: 1e6}}}}
}

func TestWeigh(t *testing.T) {
	src := &costly{share: 0.02}
	var b budget
	for second := 1; second <= 3; second++ {
		src.spent = Spent{Stacks: time.Duration(second) * 20 * time.Millisecond, Host: 0.009, Ledger: 0.003}
		x := at(t, second)
		var err error
		if x.Overhead, err = b.tick(src, x, x.Self.CPU); err != nil {
			t.Fatal(err)
		}
		if second == 1 {
			if x.Overhead.Share != 0 {
				t.Errorf("a first tick costs %v: there is nothing to compare with", x.Overhead)
			}
			continue
		}
		// 200 ms + 50 ms of probes and 20 ms of stacks in two CPU seconds; 30 ms of the agent and
		// 12 ms of tracepoints in the three of both processes.
		want := tick.Overhead{Budget: 0.02, Probes: 0.125, Stacks: 0.01, Agent: 0.01, Tracepoints: 0.004}
		want.Share = want.Probes + want.Stacks + want.Agent + want.Tracepoints
		for _, c := range [][2]float64{{x.Overhead.Share, want.Share}, {x.Overhead.Probes, want.Probes}, {x.Overhead.Stacks, want.Stacks},
			{x.Overhead.Agent, want.Agent}, {x.Overhead.Tracepoints, want.Tracepoints}} {
			if math.Abs(c[0]-c[1]) > 1e-4 {
				t.Fatalf("overhead %+v, want %+v", x.Overhead, want)
			}
		}
	}
	if len(src.shed) != 2 || govern.Steps[src.shed[0].Step].Name != "records-thin" || len(src.hot) != 1 {
		t.Errorf("shed %v, hot %v", src.shed, src.hot)
	}
}

// The probes of further copies of a library fire in the calls of all processes that make any.
func TestWeighCopies(t *testing.T) {
	src := &costly{share: 0.9}
	var b budget
	for second := 1; second <= 2; second++ {
		src.spent = Spent{Copies: time.Duration(second) * 20 * time.Millisecond}
		o, err := b.tick(src, at(t, second), 0)
		if err != nil {
			t.Fatal(err)
		}
		if second == 2 && math.Abs(o.Probes-0.135) > 1e-4 { // 250 ms and 20 ms, in two CPU seconds
			t.Errorf("probes cost %v, want 0.135", o.Probes)
		}
	}
}

// The operations that lose their probes are those of the process that pays too much, however many
// others pay less for other ones.
func TestHotOfTheWorst(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	quick, _ := events.OpByName("cudaEventRecord")
	src := &costly{share: 0.02}
	var b budget
	for second := 1; second <= 20 && len(src.shed) == 0; second++ {
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second}
		for pid := uint32(1); pid <= 33; pid++ {
			op, calls := launch, uint64(9500) // 1.9 % of a second
			if pid == 33 {
				op, calls = quick, 14_000
			}
			x.Processes = append(x.Processes, tick.Process{PID: pid})
			x.Ops = append(x.Ops, tick.Op{PID: pid, Op: op, Last: tick.Counts{Calls: calls, Done: calls}})
		}
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(src.shed) == 0 || !slices.Equal(src.hot, []events.Op{quick}) {
		t.Errorf("shed %v, hot %v, want %v", src.shed, src.hot, quick)
	}
}

// An operation that begins to pay while others have no probe loses its probe too, once. All probes
// come back together.
func TestHotOneAfterAnother(t *testing.T) {
	memset, _ := events.OpByName("cudaMemsetAsync")
	record, _ := events.OpByName("cudaEventRecord")
	src := &costly{share: 0.02}
	var b budget
	var got []string
	for second := 1; second <= 60; second++ {
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second, Processes: []tick.Process{{PID: 1}}}
		for op, from := range map[events.Op]int{memset: 1, record: 15} {
			if second >= from && second < 30 && !(b.sheds(govern.Hot) && slices.Contains(src.hot, op)) {
				x.Ops = append(x.Ops, tick.Op{PID: 1, Op: op, Last: tick.Counts{Calls: 100_000, Unmeasured: 100_000}})
			}
		}
		was := len(src.shed)
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
		for _, c := range src.shed[was:] {
			if govern.Steps[c.Step].Part == govern.Hot {
				if !c.Taken {
					src.hot = nil
				}
				got = append(got, fmt.Sprint(second, " ", c.Taken, " ", len(src.hot)))
			}
		}
	}
	if want := []string{"8 true 1", "16 true 2", "27 false 0", "28 true 2", "49 false 0"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
}

// host-off ends the cost that it sheds, although the last measurement is older than the step.
func TestHostOffEndsItsCost(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	record, _ := events.OpByName("cudaEventRecord")
	src := &costly{share: 0.02, spent: Spent{Host: 0.03}}
	var b budget
	for second := range 15 {
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second, Processes: []tick.Process{{PID: 1}}}
		for _, op := range []events.Op{launch, record} {
			x.Ops = append(x.Ops, tick.Op{PID: 1, Op: op, Last: tick.Counts{Calls: 500, Done: 500}})
		}
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, c := range src.shed {
		got = append(got, fmt.Sprint(govern.Steps[c.Step].Name, " ", c.Taken))
	}
	if want := []string{"host-off true"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
}

// Steps are reverted while no traced process lives, so that the next one is traced fully.
func TestStepsRevertWithoutProcesses(t *testing.T) {
	record, _ := events.OpByName("cudaEventRecord")
	src := &costly{share: 0.02}
	var b budget
	for second := 1; second <= 120; second++ {
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second}
		if second <= 10 {
			x.Processes = []tick.Process{{PID: 1}}
			x.Ops = []tick.Op{{PID: 1, Op: record, Last: tick.Counts{Calls: 100_000, Unmeasured: 100_000}}}
		}
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(src.shed) == 0 || len(b.Taken()) > 0 {
		t.Errorf("changes %+v, steps %v are still taken", src.shed, b.Taken())
	}
}

// While that step is taken, only the launches of a process with very many are counted.
func TestCountedLaunches(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	src := &costly{share: 0.02}
	var b budget
	step := func(second int, launches uint64) {
		t.Helper()
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second, Processes: []tick.Process{{PID: 1}, {PID: 2}},
			Ops: []tick.Op{{PID: 1, Op: launch, Last: tick.Counts{Calls: launches, Done: launches}}, {PID: 2, Op: launch, Last: tick.Counts{Calls: 100, Done: 100}}}}
		if len(src.counted) > 0 {
			x.Ops[0].Last = tick.Counts{Calls: launches, Unmeasured: launches}
		}
		var err error
		if x.Overhead, err = b.tick(src, x, x.Self.CPU); err != nil {
			t.Fatal(err)
		}
	}
	// Timed, 20,000 launches take 4 % of a second; counted, 1 %. The first tick has no earlier one
	// to compare with, and one tick over the bound means nothing.
	for second := 1; second <= 20; second++ {
		step(second, 20_000)
		if want := second >= 3; len(src.counted) > 0 != want || want && (len(src.counted) > 1 || src.counted[0] != 1) {
			t.Fatalf("second %d: counted are %v", second, src.counted)
		}
	}
	for second := 21; second <= 40; second++ {
		step(second, 100)
	}
	if len(src.counted) > 0 || len(src.shed) != 2 || src.shed[1].Taken {
		t.Errorf("after 20 quiet seconds: counted are %v, changes %+v", src.counted, src.shed)
	}
}

// What a revert adds is estimated by the calls of a process, not of all: the bound is one for each process.
func TestStepOfAnotherJobReverts(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	src := &costly{share: 0.02}
	var b budget
	for second := 1; second <= 60; second++ {
		processes, launches := 1, uint64(20_000) // 4 % of a second
		if second > 10 {
			processes, launches = 8, 4000 // 0.8 % of a second of each
		}
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second}
		for pid := range uint32(processes) {
			o := tick.Op{PID: pid, Op: launch, Last: tick.Counts{Calls: launches}}
			if slices.Contains(src.counted, pid) {
				o.Last.Unmeasured = launches
			}
			x.Processes, x.Ops = append(x.Processes, tick.Process{PID: pid}), append(x.Ops, o)
		}
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(src.shed) != 2 || len(b.Taken()) > 0 {
		t.Errorf("changes %+v, steps %v are still taken", src.shed, b.Taken())
	}
}

// A tick requests the cost of each operation once, whatever the number of processes, and of none that
// nobody called in it. Within the bound it does not request which steps are possible.
func TestWeighOnce(t *testing.T) {
	launch, _ := events.OpByName("cudaLaunchKernel")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	record, _ := events.OpByName("cudaEventRecord")
	src := &costly{share: 0.02}
	var b budget
	x := &tick.Tick{Window: time.Second}
	for pid := uint32(1); pid <= 100; pid++ {
		p := tick.Process{PID: pid}
		calls := uint64(1000) // 0.2 % of a second
		if pid > 50 {
			p.Ended, calls = time.Unix(1, 0), 0
		}
		x.Processes = append(x.Processes, p)
		x.Ops = append(x.Ops, tick.Op{PID: pid, Op: launch, Last: tick.Counts{Calls: calls}}, tick.Op{PID: pid, Op: sync, Last: tick.Counts{Calls: calls}}, tick.Op{PID: pid, Op: record})
	}
	for second := range 3 {
		src.asked = nil
		x.Time = time.Unix(int64(second), 0)
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(src.asked, []events.Op{launch, sync}) {
			t.Errorf("second %d: the cost of %v was requested", second, src.asked)
		}
	}
	if len(src.lacks) > 0 {
		t.Errorf("steps %v were requested", src.lacks)
	}
}

// Without a bound nothing is computed or reported.
func TestWeighUnbound(t *testing.T) {
	src := &costly{}
	var b budget
	x := at(t, 1)
	if o, err := b.tick(src, x, x.Self.CPU); err != nil || o.Budget != 0 || len(src.shed) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Every step has a switch, and every switch a step.
func TestShedSwitches(t *testing.T) {
	for i := range govern.Steps {
		if sheds[govern.Steps[i].Name] == nil {
			t.Errorf("%s has no switch", govern.Steps[i].Name)
		}
	}
	if len(sheds) != len(govern.Steps) {
		t.Errorf("%d switches of %d steps", len(sheds), len(govern.Steps))
	}
}
