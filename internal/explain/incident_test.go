package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/causal"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func thread(name string, pid, tid uint32) events.Thread {
	return events.Thread{PID: pid, TID: tid, Parent: 711, Name: events.NameOf(name)}
}

const second = uint64(time.Second)

// well returns the account of a GPU-bound job.
func well(pid uint32) tick.Breakdown {
	return tick.Breakdown{PID: pid, Threads: 1, Elapsed: 60 * second, GPUWait: 577 * second / 10, CallCPU: second, GapCPU: 12 * second / 10,
		Runnable: second / 20, Blocked: second / 20, Steps: 3974, StepP50: 15_100_000, StepP99: 15_400_000,
		RunnableBy: []tick.Share{{NS: second / 25, Count: 31, Who: thread("kworker/0:1", 96, 96)}},
		BlockedOn:  []tick.Share{{NS: second / 25, Count: 12, Reason: events.ReasonSleep, Call: syscallNamed("clock_nanosleep"), ByIRQ: true}}}
}

func syscallNamed(name string) events.Syscall {
	for i := range events.Syscalls {
		if events.Syscalls[i].Name == name {
			return events.Syscall(i)
		}
	}
	panic(name)
}

// hogged returns the account of a job whose CPU others took.
func hogged(pid uint32) tick.Breakdown {
	b := well(pid)
	b.GPUWait, b.Runnable = 5634*second/100, 141*second/100
	b.RunnableBy = []tick.Share{
		{NS: 68 * second / 100, Count: 203, Who: thread("stress-ng", 8821, 8821)},
		{NS: 67 * second / 100, Count: 209, Who: thread("stress-ng", 8822, 8822)},
		{NS: 3 * second / 100, Count: 44, Who: thread("kworker/0:1", 96, 96)},
	}
	b.Steps, b.StepP50, b.StepP99 = 3801, 15_200_000, 27_500_000
	b.Critical, b.CriticalMin, b.CriticalMax = 137*second/100, 13*second/10, 14*second/10
	return b
}

func takenChain(pid uint32) tick.Chain {
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	return tick.Chain{
		ID: "c-7f3a", Rule: "cpu-taken", Severity: tick.High, PID: pid, TID: pid, Op: streamSyn, From: at(20.3), To: at(25.1),
		Lost: 1370 * time.Millisecond, LostMin: 1360 * time.Millisecond, LostMax: 1380 * time.Millisecond, Window: time.Minute,
		Excess: 1410 * time.Millisecond, Steps: 3801, Slow: 412, Confidence: 0.97, Baseline: "no such wait; a normal step takes 15.1 ms",
		StepP50: 15_100_000, StepP99: 27_500_000, Without: 15_200_000, OpP50: 15_000_000, OpP99: 27_400_000,
		Culprits: []tick.Culprit{
			{Thread: thread("stress-ng", 8821, 8821), Cgroup: "/system.slice/cron.service", Parent: "cron 711", CPUs: []uint16{0}, Lost: 690 * time.Millisecond},
			{Thread: thread("stress-ng", 8822, 8822), Cgroup: "/system.slice/cron.service", Parent: "cron 711", CPUs: []uint16{0}, Lost: 680 * time.Millisecond},
		},
		Timeline: []tick.Moment{
			{Time: at(20.1), Source: "HOST", Text: "stress-ng 8821 runs on CPU 0"},
			{Time: at(20.3), Source: "CUDA", Text: "cudaStreamSynchronize 27.4 ms = on CPU 3.2 + runnable 24.1 (8821: 12.0, 8822: 12.1) + blocked 0.1"},
			{Time: at(25.1), Source: "SYSTEM", Text: "the last slow step"},
		},
		NotIt: []string{"GPU", "disk", "memory", "throttling", "own threads"},
	}
}

// chainOfRule returns a chain with the minimum facts of a rule.
func chainOfRule(rule string, op events.Op, culprits ...tick.Culprit) tick.Chain {
	return tick.Chain{ID: "c-" + rule, Rule: rule, Severity: tick.Medium, PID: 4821, TID: 4830, Op: op, From: start, To: start.Add(time.Second),
		Lost: 800 * time.Millisecond, LostMin: 800 * time.Millisecond, LostMax: 800 * time.Millisecond, Window: time.Minute,
		Excess: 900 * time.Millisecond, Steps: 100, Slow: 1, Confidence: 0.8, Culprits: culprits}
}

func ledgerInput(m *maker, list ...tick.Breakdown) *Input {
	in := input(m)
	for _, b := range list {
		in.Processes = append(in.Processes, process(b.PID))
	}
	in.Breakdowns = list
	in.Host = &tick.Host{CPU: 0.1, CPUs: 16, MemTotal: 64 << 30, MemAvail: 12 << 30}
	return in
}

var incidents = []struct {
	name   string
	detail Detail
	in     func() *Input
}{
	{"healthy", Brief, func() *Input { return ledgerInput(train(4821, 200), well(4821)) }},
	{"healthy-busy", Brief, func() *Input {
		in := ledgerInput(train(4821, 200), well(4821))
		in.Host.CPU = 0.4
		in.Breakdowns[0].Runnable, in.Breakdowns[0].Blocked = 0, second/10
		in.Remarks = []string{"the trace was killed; this is what it had at 15:41:00"}
		return in
	}},
	{"healthy-tables", Tables, func() *Input { return ledgerInput(train(4821, 200), well(4821)) }},
	{"hog", Brief, func() *Input {
		in := ledgerInput(train(4821, 200), hogged(4821), well(4822))
		in.Chains = []tick.Chain{takenChain(4821)}
		return in
	}},
	{"throttled", Shares, func() *Input {
		b := well(4821)
		b.GPUWait -= 6 * second
		b.Throttled = 6 * second
		in := ledgerInput(train(4821, 200), b)
		in.Processes[0].Cgroup = "/user.slice/job.scope"
		in.Chains = []tick.Chain{chainOfRule("cpu-throttled", streamSyn, tick.Culprit{What: "CPU quota", Lost: time.Second})}
		in.Chains[0].LostMin = 500 * time.Millisecond
		return in
	}},
	{"disk", Brief, func() *Input {
		b := well(4821)
		b.GPUWait -= 6 * second
		b.Blocked += 6 * second
		b.BlockedOn = []tick.Share{{NS: 6 * second, Count: 60, Who: thread("worker", 4830, 4830), Reason: events.ReasonPipe, File: events.FilePipe,
			Call: syscallNamed("read"), Arg: 5, Waker: &tick.WakerShare{Times: tick.Times{OnCPU: second, Blocked: 5 * second},
				Reason: events.ReasonDisk, Call: syscallNamed("pread64"), Dev: 254 << 20}},
			{NS: second / 2, Count: 9, ByIRQ: true, Reason: events.ReasonDisk, File: events.FileRegular, Call: syscallNamed("fsync"), Dev: 254 << 20,
				At: "train.py:88 in save()"}}
		in := ledgerInput(train(4821, 200), b)
		in.Chains = []tick.Chain{chainOfRule("disk-wait", 0, tick.Culprit{Thread: thread("worker", 4830, 4830), What: "disk 254:0, pread64", Lost: time.Second, At: "dataset.py:57 in decode()"},
			tick.Culprit{What: "disk 254:0, fsync", Lost: time.Second / 2}, tick.Culprit{What: "disk 254:0, fsync", Lost: time.Second / 4, At: "train.py:88 in save()"})}
		return in
	}},
	{"rules", Brief, func() *Input {
		in := ledgerInput(train(4821, 20), well(4821))
		own := tick.Culprit{Thread: thread("omp", 4821, 4840), Own: true, CPUs: []uint16{3, 2, 7}}
		in.Chains = []tick.Chain{
			chainOfRule("own-threads", streamSyn, own),
			chainOfRule("stopped", 0, tick.Culprit{Thread: thread("gdb", 99, 99), What: "stopped it"}),
			chainOfRule("lock-wait", 0, tick.Culprit{Thread: thread("dispatch", 4821, 4841), Own: true, What: "held a lock, or had not finished", Waited: "train.py:31 in push()"}),
			chainOfRule("tool-call", 0, tick.Culprit{Thread: thread("sh", 4850, 4850), What: tick.ChildEnd, Waited: "train.py:40 in monitor()"}),
			chainOfRule("driver-slow", malloc, tick.Culprit{What: "GPU driver, in cudaMalloc"}),
			chainOfRule("call-slow", memcpy, tick.Culprit{What: "cudaMemcpyAsync"}),
			chainOfRule("disk-wait", 0, tick.Culprit{What: "disk 254:0, for a page of memory", Root: tick.Root{Whose: tick.RelationSelf, Did: tick.ActivityPage}}),
			chainOfRule("cpu-taken", streamSyn, tick.Culprit{Thread: events.Thread{PID: 96, TID: 96, Parent: 2, Name: events.NameOf("kworker/0:1")}, CPUs: []uint16{0}}),
			chainOfRule("cpu-taken", streamSyn, tick.Culprit{Thread: thread("ingero", 50, 51), Agent: true, CPUs: []uint16{0}}),
			chainOfRule("scheduler-cpu", 0, tick.Culprit{What: "6.28 ms on a CPU before the launch of each of 480 steps", At: "scheduler.py:312 in schedule()"}),
			chainOfRule("scheduler-cpu", 0, tick.Culprit{Thread: thread("EngineCore", 4830, 4830), What: "4.46 ms on a CPU before the launch of each of 486 steps", At: "scheduler.py:312 in schedule()"}),
			chainOfRule("a-rule-to-come", 0),
		}
		return in
	}},
	{"little", Brief, func() *Input { return ledgerInput(train(4821, 20), hogged(4821)) }},
	{"many", Brief, func() *Input {
		var list []tick.Breakdown
		for pid := range uint32(20) {
			list = append(list, well(4821+pid))
		}
		return ledgerInput(train(4821, 3), list...)
	}},
	{"long", Shares, func() *Input {
		in := ledgerInput(train(4821, 20), hogged(4821))
		in.Chains = []tick.Chain{takenChain(4821)}
		in.Node = strings.Repeat("node-", 30)
		in.Processes[0].Comm = strings.Repeat("train.py-", 12)
		c := &in.Chains[0].Culprits[0]
		c.Cgroup, c.Parent = "/"+strings.Repeat("kubepods-", 30), strings.Repeat("supervisor ", 9)
		return in
	}},
	{"own-code", Shares, func() *Input {
		b := tick.Breakdown{PID: 4821, Threads: 1, Elapsed: second, GPUWait: second / 5, CallCPU: second / 20, GapCPU: second * 3 / 4,
			Code:  []tick.CodeTime{{At: "dataset.py:57 in decode()", NS: 600 * ms}, {At: "dataset.py:61 in augment()", NS: 80 * ms}},
			Steps: 10, StepP50: 100 * ms, StepP99: 104 * ms}
		return ledgerInput(train(4821, 1), b)
	}},
	{"no-steps", Brief, func() *Input {
		b := tick.Breakdown{PID: 4821, Threads: 1, Elapsed: second, Blocked: second * 9 / 10, GapCPU: second / 10,
			BlockedOn: []tick.Share{{NS: second / 2, Count: 1, Reason: events.ReasonSocket, Who: thread("server", 7, 7)}}}
		return ledgerInput(train(4821, 1), b)
	}},
}

func TestIncident(t *testing.T) {
	for _, tt := range incidents {
		t.Run(tt.name, func(t *testing.T) {
			got := Report(tt.in(), Options{Location: cet, Detail: tt.detail})
			narrow(t, got, 80)
			testkit.Golden(t, "incident-"+tt.name+".txt", got)
			b, err := ReportJSON(tt.in())
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "hog" || tt.name == "disk" {
				testkit.Golden(t, "incident-"+tt.name+".json", string(b))
			}
		})
	}
}

// The displayed parts of a breakdown add up to 100.0 % and to the time.
func TestBreakdownAddsUp(t *testing.T) {
	for _, tt := range incidents {
		b, err := ReportJSON(tt.in())
		if err != nil {
			t.Fatal(err)
		}
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Processes {
			if p.Breakdown == nil {
				t.Fatalf("%s: process %d has no breakdown", tt.name, p.PID)
			}
			var ns uint64
			tenthsOfPercent := 0
			for _, part := range p.Breakdown.Parts {
				ns += part.NS
				tenthsOfPercent += int(part.Percent*10 + 0.5)
			}
			if ns != p.Breakdown.ElapsedNS || tenthsOfPercent != 1000 {
				t.Errorf("%s: %d: parts add up to %d of %d ns, %d of 1000", tt.name, p.PID, ns, p.Breakdown.ElapsedNS, tenthsOfPercent)
			}
		}
	}
}

// The JSON facts of a chain are in the text, if no line is truncated.
func TestChainsInTextAndJSONAgree(t *testing.T) {
	for _, tt := range incidents {
		in := tt.in()
		text := strings.Join(strings.Fields(Report(in, Options{Location: cet, Detail: tt.detail, NoTruncate: true})), " ")
		r := build(in)
		if len(r.Chains) != len(in.Chains) {
			t.Errorf("%s: %d chains of %d", tt.name, len(r.Chains), len(in.Chains))
		}
		for i := range r.Chains {
			c := &r.Chains[i]
			for _, want := range []string{"[" + c.Severity + "] " + c.Headline, c.RootCause, c.Fix, lostText(c), strings.Join(c.NotIt, ", ")} {
				if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("%s: the text lacks %q", tt.name, want)
				}
			}
		}
	}
}

// Foreign names cannot control the terminal, wherever they appear.
func TestIncidentIsSafe(t *testing.T) {
	const evil = "a\x1b[2Jb\n\x07"
	in := ledgerInput(train(4821, 1), hogged(4821))
	in.Chains = []tick.Chain{takenChain(4821)}
	c := &in.Chains[0]
	c.Rule, c.ID, c.Baseline, c.NotIt, c.Timeline[0].Text, c.Timeline[0].Source = evil, evil, evil, []string{evil}, evil, evil
	for i := range c.Culprits {
		x := &c.Culprits[i]
		x.Thread.Name, x.Cgroup, x.Cmdline, x.Parent, x.What, x.Where = events.NameOf(evil), evil+" "+evil, evil, evil, evil, evil
	}
	in.Breakdowns[0].RunnableBy[0].Who.Name = events.NameOf(evil)
	in.Processes[0].Cgroup, in.Processes[0].Comm = evil, evil
	for _, f := range tick.WhereFields {
		if f.Text != nil {
			*f.Text(&in.Processes[0].Where) = evil
		}
	}
	in.Remarks = []string{evil}
	in.Threads = []tick.Thread{{PID: 1, Comm: evil}}
	b, err := ReportJSON(in)
	if err != nil {
		t.Fatal(err)
	}
	seen := &Seen{}
	seen.Add(&tick.Batch{
		Procs: []tick.ProcEvent{{Kind: tick.ProcExeced, PID: 4821, Comm: evil}, {Kind: tick.ProcForked, PID: 4821, Comm: evil}, {Kind: tick.ProcExited, Comm: evil}},
		Waits: []events.Wait{{State: events.WaitRunnable, Op: streamSyn, Duration: 9 * ms, Taken: 9 * ms, Who: thread(evil, 8, 8)}},
	})
	live := Live(&tick.Tick{Processes: in.Processes, Breakdowns: in.Breakdowns, Chains: in.Chains, Ops: in.Ops, Time: start,
		Pods: []tick.Pod{{UID: evil, Name: evil, Namespace: evil, Phase: evil, GPUs: 1}}}, seen, Options{Width: 200})
	w := events.Wait{State: events.WaitBlocked, Who: thread(evil, 8, 8)}
	line := string(AppendWaitLine(nil, &w, evil, nil)) + string(AppendWaitJSON(nil, &w, evil)) + string(AppendProcJSON(nil, &tick.ProcEvent{Comm: evil}))
	for name, text := range map[string]string{"report": Report(in, Options{Detail: Tables}), "json": string(b), "live": live, "line": line} {
		if strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("control characters get through in %s: %q", name, text)
		}
		if !strings.Contains(text, "a?[2Jb?") {
			t.Errorf("the name is gone from %s", name)
		}
	}
}

// Every rule of the engine has words, and no others have.
func TestCausesAreComplete(t *testing.T) {
	words := map[string]causeWords{}
	for _, table := range causeTables {
		for rule, w := range table {
			if _, twice := words[rule]; twice {
				t.Errorf("%s has words in two tables", rule)
			}
			words[rule] = w
		}
	}
	for i := range causal.Rules {
		if _, ok := words[causal.Rules[i].Name]; !ok {
			t.Errorf("%s has no words", causal.Rules[i].Name)
		}
	}
	if len(words) != len(causal.Rules) {
		t.Errorf("there are words for %d rules of %d", len(words), len(causal.Rules))
	}
	for rule, w := range words {
		c := chainOfRule(rule, streamSyn, tick.Culprit{Thread: thread("x", 1, 1)})
		v := &victim{name: "train", cpus: 4}
		if w.head(&c) == "" || w.cause(&c, v) == "" || w.fix(&c, v) == "" {
			t.Errorf("%s: head %q, cause %q, fix %q", rule, w.head(&c), w.cause(&c, v), w.fix(&c, v))
		}
	}
}

func TestFixTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		culprits []tick.Culprit
		cpus     int
		want     string
	}{
		"one":        {[]tick.Culprit{{Thread: thread("hog", 8821, 8821), CPUs: []uint16{0}}}, 16, "sudo taskset -apc 1-15 8821, or"},
		"in between": {[]tick.Culprit{{Thread: thread("hog", 8821, 8821), CPUs: []uint16{2, 3}}}, 8, "sudo taskset -apc 0-1,4-7 8821, or"},
		"everywhere": {[]tick.Culprit{{Thread: thread("hog", 8821, 8821), CPUs: []uint16{0, 1}}}, 2, "sudo renice -n 19 -p $(ls /proc/8821/task), or"},
		"not known":  {[]tick.Culprit{{Thread: thread("hog", 8821, 8821)}}, 2, "sudo renice -n 19 -p $(ls /proc/8821/task), or"},
		"many":       {[]tick.Culprit{{Thread: thread("hog", 8821, 8821), CPUs: []uint16{0, 1, 2, 3, 4, 5, 6, 7}}}, 64, "sudo renice -n 19 -p $(ls /proc/8821/task), or"},
		"kernel":     {[]tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Parent: 2}, CPUs: []uint16{0}}}, 2, "give train its own CPUs (cpuset), and keep"},
		"a crowd": {[]tick.Culprit{{Thread: thread("go", 5, 5)}, {Thread: thread("node", 6, 6)}, {Thread: thread("rsync", 7, 7)}}, 4,
			"give train its own CPUs (cpuset): too many programs"},
		"two threads": {[]tick.Culprit{{Thread: thread("hog", 5, 6), CPUs: []uint16{0}}, {Thread: thread("hog", 5, 7), CPUs: []uint16{1}}}, 4, "sudo taskset -apc 2-3 5, or"},
	} {
		c := chainOfRule("cpu-taken", streamSyn, tt.culprits...)
		if got := fixTaken(&c, &victim{name: "train", cpus: tt.cpus}); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q...", name, got, tt.want)
		}
	}
}

// The CPUs of other ranks are not offered, and no nice value that has no effect.
func TestFixTakenNextToRanksAndInCgroups(t *testing.T) {
	for name, tt := range map[string]struct {
		ranks          uint32
		cpus           int
		culprit, group string
		want           string
	}{
		"one rank":             {1, 4, "", "", "sudo taskset -apc 1-3 8821, or"},
		"ranks":                {2, 4, "", "", "sudo taskset -apc LIST 8821 (LIST: CPUs that no rank uses), or"},
		"the same cgroup":      {1, 1, "/a/b", "/a/b", "sudo renice -n 19"},
		"services of a slice":  {1, 1, "/system.slice/cron.service", "/system.slice/train.service", "sudo systemctl set-property --runtime cron.service CPUWeight=1, or"},
		"an escaped name":      {1, 1, `/system.slice/a\x2db.service`, "/system.slice/train.service", `sudo systemctl set-property --runtime 'a\x2db.service' CPUWeight=1`},
		"below a session":      {1, 1, "/user.slice/user-1.slice/session-2.scope/x", "/user.slice/user-1.slice/session-3.scope", "sudo systemctl set-property --runtime session-2.scope CPUWeight=1, or"},
		"slices":               {1, 1, "/system.slice/cron.service", "/user.slice/user-1.slice/session-3.scope", "give train its own CPUs"},
		"units of a user":      {1, 1, "/user.slice/user@1.service/a.service", "/user.slice/user@1.service/b.service", "give train its own CPUs"},
		"a cgroup of a person": {1, 1, "/lab/hog", "/lab/train", "give train its own CPUs"},
	} {
		c := chainOfRule("cpu-taken", streamSyn, tick.Culprit{Thread: thread("hog", 8821, 8821), CPUs: []uint16{0}, Cgroup: tt.culprit})
		v := &victim{name: "train", cpus: tt.cpus, cgroup: tt.group, where: tick.Where{LocalSize: tick.Numbered(tt.ranks)}}
		if got := fixTaken(&c, v); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q...", name, got, tt.want)
		}
	}
}

// The fix for an OOM kill is that of the memory that was used up.
func TestFixOOM(t *testing.T) {
	for what, want := range map[string]string{"memory limit of /job": "raise the memory limit, or", "memory of the machine": "add memory, limit other"} {
		c := chainOfRule("oom-kill", streamSyn, tick.Culprit{What: what})
		if got := hostCauses["oom-kill"].fix(&c, &victim{}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q...", what, got, want)
		}
	}
}

// A process in two recordings has one account.
func TestBreakdownsAreJoined(t *testing.T) {
	got := breakdowns([]tick.Breakdown{well(1), hogged(1), well(2)})
	if len(got) != 2 || got[1].Elapsed != 120*second || len(got[1].RunnableBy) != 3 || got[1].Steps != 3974+3801 {
		t.Errorf("joined = %+v", got[1])
	}
	b := got[1]
	if sum := b.GPUWait + b.CallCPU + b.GapCPU + b.Runnable + b.Throttled + b.Blocked; sum != b.Elapsed {
		t.Errorf("parts add up to %d of %d", sum, b.Elapsed)
	}
}

func TestCPUList(t *testing.T) {
	for want, cpus := range map[string][]uint16{"": nil, "3": {3, 3}, "0-2,5": {2, 1, 0, 5}, "1,3,7-8": {8, 7, 3, 1}} {
		if got := cpuList(cpus); got != want {
			t.Errorf("cpuList(%v) = %q, want %q", cpus, got, want)
		}
	}
	if got := fmt.Sprint(numbers([]uint32{1, 2, 3, 4, 5})); got != "1, 2, 3 and 2 more" {
		t.Errorf("numbers = %q", got)
	}
}
