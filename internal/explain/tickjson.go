package explain

import (
	"encoding/json"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// TickJSON returns a tick as one line of JSON, without the newline.
//
// Its type is "tick". ops has, per process and operation, the exact sums since the session began
// (calls, done, errors, nested, unmeasured, abandoned, open, total_ns, on_cpu_ns, runnable_ns,
// throttled_ns, blocked_ns, partial_ns, self_ns) with the quantiles (p50_ns, p95_ns, p99_ns,
// max_ns, quantile_error), and under last the tick's own share.
// threads are the accounts of threads, with current activity and open calls. breakdowns divide the
// time of each process. chains are the losses of the last minutes with their causes, most severe
// first; hidden are the chains that are not shown, and why. states are derived from the calls of
// each process: memory, streams, graphs, communicators, copies, errors; each list has the largest
// and the total number. roll_calls are the collectives with missing ranks, and what these do
// instead. launches are the launched GPU functions by process, and why some have no name. requests are
// those to servers that ended since the previous tick. xids are the GPU faults of the tick, gpus the
// state of each GPU.
// The other fields are processes, libraries, reports, drops, self and host. stack_policy is which
// calls have their stack taken (slow, all, false). host_sums are the host events since the previous
// tick: kind, process, object, count, bytes, total_ns. overhead is the cost of tracing, as shares
// of the time of the traced processes, and what is shed to stay within the budget. Durations are
// nanoseconds; unknown values are absent.
func TickJSON(t *tick.Tick) ([]byte, error) {
	j := wire.Tick{
		Type: "tick", Timestamp: t.Time.UTC(), Started: t.Started.UTC(), Seq: t.Seq, WindowNS: t.Window.Nanoseconds(),
		Final: t.Final, Records: t.Records, Lost: Lost(t.Drops), Ops: []wire.Op{}, Processes: []wire.Process{},
		Threads: threadsOf(t.Threads), Breakdowns: []wire.Breakdown{}, Chains: []wire.Chain{}, Hidden: hiddenOf(t.Hidden), States: []wire.State{},
		Launches: []wire.Launches{}, Libraries: []wire.Library{}, Reports: reportsOf(t.Reports), Drops: dropsOf(t.Drops), Stacks: t.StackPolicy,
		Self: selfOf(&t.Self), Overhead: overheadOf(&t.Overhead), Host: hostOf(&t.Host), HostSums: hostSumsOf(t.HostSums),
	}
	j.Inference = readsOf(t)
	j.Untold = blindSpotsJSON(t.Untold)
	hidden, less := hiddenLaunches(t.Ops), uncounted(t.Reports)
	for i := range t.Ops {
		o := &t.Ops[i]
		x := opOf(o, &o.Sum, o.Dur)
		x.PID, x.LowerBound = o.PID, less[o.Op.String()]
		if hidden[o.PID] && holdsLaunches(o) {
			x.SelfNS = nil
		}
		x.Last = lastOf(o)
		j.Ops = append(j.Ops, x)
	}
	victimOf := victims(t.Processes, &t.Host)
	for i := range t.Breakdowns {
		j.Breakdowns = append(j.Breakdowns, breakdownOf(&t.Breakdowns[i]))
	}
	for i := range t.Chains {
		j.Chains = append(j.Chains, chainOf(&t.Chains[i], victimOf(t.Chains[i].PID)))
	}
	for i := range t.States {
		j.States = append(j.States, stateOf(&t.States[i]))
	}
	j.RollCalls = rollCallsOf(t)
	for i := range t.Launches {
		j.Launches = append(j.Launches, launchesOf(&t.Launches[i]))
	}
	for i := range t.Processes {
		j.Processes = append(j.Processes, processOf(&t.Processes[i]))
	}
	for i := range t.Xids {
		j.Xids = append(j.Xids, xidOf(&t.Xids[i]))
	}
	for i := range t.Requests {
		j.Requests = append(j.Requests, requestOf(&t.Requests[i]))
	}
	var engines Engines
	engines.Add(t)
	j.Engines = engines.List()
	for i := range t.GPUs {
		j.GPUs = append(j.GPUs, gpuOf(&t.GPUs[i]))
	}
	for _, l := range t.Libraries {
		j.Libraries = append(j.Libraries, wire.Library{Path: clean(l.Path), Library: l.Lib.String(), BuildID: l.BuildID, Probes: l.Probes})
	}
	for i := range t.Pods {
		p := &t.Pods[i]
		j.Pods = append(j.Pods, wire.Pod{UID: clean(p.UID), Name: clean(p.Name), Namespace: clean(p.Namespace), Phase: clean(p.Phase), GPUs: p.GPUs})
	}
	return json.Marshal(&j)
}

func lastOf(o *tick.Op) *wire.OpLast {
	l := opOf(&tick.Op{Op: o.Op}, &o.Last, o.DurLast)
	return &wire.OpLast{
		Calls: l.Calls, Done: l.Done, Errors: l.Errors, TotalNS: l.TotalNS, OnCPUNS: l.OnCPUNS, RunnableNS: l.RunnableNS,
		ThrottledNS: l.ThrottledNS, BlockedNS: l.BlockedNS, PartialNS: l.PartialNS, P50NS: l.P50NS, P95NS: l.P95NS, P99NS: l.P99NS, MaxNS: l.MaxNS,
	}
}

// hiddenLaunches returns the processes with driver launches counted inside runtime launches.
func hiddenLaunches(ops []tick.Op) map[uint32]bool {
	out := map[uint32]bool{}
	for i := range ops {
		if inDriverLaunches(ops[i : i+1]) {
			out[ops[i].PID] = true
		}
	}
	return out
}
