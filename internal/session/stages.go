package session

import (
	"slices"

	"ingero/internal/episode"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stage is one stage of the pipeline: a row of [stages]. Its functions read the parts in takes, and
// write those in gives.
type stage struct {
	name          string
	reads, writes parts
	live          bool                            // a recording has the parts in gives
	batch         func(*runner, *pollResult)      // nil: none
	tick          func(*runner, *tick.Tick) error // nil: none
}

// pollResult is the result of a poll, with what stages derive from it.
type pollResult struct {
	*tick.Batch
	Faults []tick.Xid
	Steps  []ledger.Step
}

// source has the parts from the source and the session's clock, ahead of all stages.
var source = stage{name: "source",
	writes: set(partCalls, partDevice, partWaits, partExits, partLives, partRanges, partLabels, partTexts, partLearnt, partRawStacks, partNamed, partFaults,
		partMoment, partRecords, partSums, partProcesses, partOthers, partThreads, partRecordedXids, partGpus, partRequests, partInference, partLibraries, partPods, partReports, partDrops)}

// Further parts from the running kernel, and from a recording.
var (
	fromKernel    = set(partHostEvents)
	fromRecording = set(partMachineState, partMachineEvents, partFloor)
)

// stages has the stages of the pipeline, in order. A stage that needs another part adds it to
// takes, and stands after the stage that gives it. [check] enforces the order at the start. A test
// checks that each stage reads and writes only what its row declares.
var stages = []stage{
	{name: "durations", reads: set(partCalls, partSums, partDrops), writes: set(partDurations),
		batch: func(r *runner, b *pollResult) { r.table.add(b.Calls) },
		tick:  func(r *runner, t *tick.Tick) error { r.table.fill(t.Ops, t.Drops); return nil }},

	{name: "machine", live: true, writes: set(partMachineState, partMachineEvents, partFloor),
		reads: set(partMoment, partReports, partRecords, partSums, partDurations, partProcesses, partThreads, partHostEvents),
		tick: func(r *runner, t *tick.Tick) error {
			m, err := r.machine(t)
			t.Host, t.Self, t.Overhead = m.Host, m.Self, m.Overhead
			t.HostSums = append(t.HostSums, m.Sums...)
			r.budget.reportFloor(t)
			return err
		}},

	{name: "deadband", writes: set(partIdle, partReportedEvents),
		reads: set(partMoment, partRecords, partSums, partDurations, partProcesses, partMachineState, partMachineEvents),
		tick:  func(r *runner, t *tick.Tick) error { t.Idle, t.HostSums = r.quiet.look(t); return nil }},

	{name: "ledger", reads: set(partWaits, partCalls, partThreads, partProcesses), writes: set(partSteps, partBreakdowns),
		batch: func(r *runner, b *pollResult) { b.Steps = r.ledger.Batch(b.Waits, b.Calls) },
		tick: func(r *runner, t *tick.Tick) error {
			t.Breakdowns = r.ledger.Tick(t.Threads, t.Processes)
			return nil
		}},

	{name: "loops", reads: set(partRanges, partWaits, partSteps, partBreakdowns), writes: set(partLoops),
		batch: func(r *runner, b *pollResult) { r.loops.Batch(b.Ranges, b.Waits, b.Steps) },
		tick: func(r *runner, t *tick.Tick) error {
			loops := r.loops.Tick()
			for i := range t.Breakdowns {
				t.Breakdowns[i].Loop = loops[t.Breakdowns[i].PID]
			}
			return nil
		}},

	{name: "requests", reads: set(partSteps, partRequests, partProcesses, partOthers, partMachineState), writes: set(partRequestTimes),
		batch: func(r *runner, b *pollResult) { r.serve.Batch(b.Steps) },
		tick:  func(r *runner, t *tick.Tick) error { r.serve.Tick(t); return nil }},

	{name: "states", reads: set(partCalls, partDevice, partLives, partProcesses, partSums, partThreads, partDrops), writes: set(partDevices, partStates, partStateDrops),
		batch: func(r *runner, b *pollResult) { r.track.Batch(b.Calls, b.Procs) },
		tick: func(r *runner, t *tick.Tick) error {
			r.track.Threads(t.Threads)
			t.States = r.track.Tick(t.Processes, t.Ops)
			t.Drops = addDrops(t.Drops, "state-no-room", r.track.Untracked())
			return nil
		}},

	{name: "roll call", reads: set(partLives, partMoment, partStates, partThreads), writes: set(partMissing, partStragglers),
		batch: func(r *runner, b *pollResult) { r.ranks.Batch(b.Procs) },
		tick: func(r *runner, t *tick.Tick) error {
			t.RollCalls, t.Lates = r.ranks.Tick(t.Time, t.States, t.Threads)
			return nil
		}},

	{name: "faults", writes: set(partXids, partFaultDrops),
		reads: set(partFaults, partCalls, partLives, partMoment, partProcesses, partThreads, partRecordedXids, partStateDrops),
		batch: func(r *runner, b *pollResult) {
			if r.can.Faults != nil {
				r.faults.batch(b.Faults, b.Calls, b.Procs)
			}
		},
		tick: func(r *runner, t *tick.Tick) error {
			t.Drops = append(t.Drops, r.faults.drops()...)
			t.Xids = append(t.Xids, r.faults.tick(t.Time, t.Final, t.Processes, t.Threads)...)
			return nil
		}},

	{name: "causes", writes: set(partChains, partBlindSpots, partCauseDrops),
		reads: set(partSteps, partMoment, partSums, partDurations, partProcesses, partOthers, partStates, partMissing, partStragglers, partXids, partGpus,
			partMachineState, partReportedEvents, partRequests, partRequestTimes, partInference, partBreakdowns, partFaultDrops),
		batch: func(r *runner, b *pollResult) { r.causes.Add(b.Steps) },
		tick: func(r *runner, t *tick.Tick) error {
			t.Chains, t.Untold = r.causes.Tick(t)
			if r.can.SeekSharers != nil {
				r.can.SeekSharers(t)
			}
			t.Drops = addDrops(t.Drops, "causes-left-out", r.causes.LeftOut())
			r.quiet.chains = len(t.Chains) // for the next tick
			return nil
		}},

	{name: "functions", reads: set(partTexts, partLives, partLearnt, partCalls, partMoment), writes: set(partFunctions, partLaunches),
		batch: func(r *runner, b *pollResult) {
			b.Functions = r.functions(b.Batch, func() []events.Function { return r.names.Batch(b.Texts, b.Procs, b.Functions, b.Calls) })
		},
		tick: func(r *runner, t *tick.Tick) error { t.Launches = r.names.Tick(t.Time, t.Final); return nil }},

	{name: "stacks", reads: set(partRawStacks, partLives, partNamed, partCauseDrops), writes: set(partStackNames, partStackPolicy, partAllDrops),
		batch: func(r *runner, b *pollResult) { b.Stacks = r.stacks.batch(b.Stacks, b.RawStacks, b.Procs) },
		tick: func(r *runner, t *tick.Tick) error {
			t.StackPolicy = r.stacks.policy
			t.Drops = append(t.Drops, r.stacks.drops()...)
			return nil
		}},

	{name: "sites", writes: set(partSites, partRankSites, partBreakdownSites),
		reads: set(partStackNames, partCalls, partWaits, partMoment, partChains, partMissing, partBreakdowns, partProcesses),
		batch: func(r *runner, b *pollResult) { r.sites.batch(b.Stacks, b.Calls, b.Waits) },
		tick: func(r *runner, t *tick.Tick) error {
			r.sites.setChains(t.Chains)
			r.sites.setRanks(t.RollCalls)
			r.sites.setBreakdowns(t.Breakdowns)
			r.sites.age(t.Time, t.Processes)
			return nil
		}},

	{name: "culprits", reads: set(partChains, partProcesses, partOthers), writes: set(partCulprits),
		tick: func(_ *runner, t *tick.Tick) error { addPlaces(t.Chains, t.Processes, t.Others); return nil }},

	{name: "hide", reads: set(partMoment, partChains, partSites, partCulprits), writes: set(partShown, partHidden),
		tick: func(r *runner, t *tick.Tick) error {
			if r.Hide != nil {
				t.Chains, t.Hidden = r.Hide(t.Time.Add(t.Ahead), t.Final, t.Chains)
			}
			return nil
		}},

	{name: "episodes", reads: set(partMoment, partProcesses, partShown, partSites, partCulprits, partHidden), writes: set(partEpisodes),
		tick: func(r *runner, t *tick.Tick) error {
			t.Episodes = r.episodes.Tick(episode.Now{Time: t.Time, Seq: t.Seq, Window: t.Window, Final: t.Final, Processes: t.Processes, Chains: t.Chains, Hidden: t.Hidden})
			return nil
		}},

	{name: "slow calls", reads: set(partMoment, partSums, partDurations),
		tick: func(r *runner, t *tick.Tick) error { return r.setSlow(t.Ops, t.Final) }},
}

// sinks has the parts that sinks read, after all stages.
var sinks = stage{name: "sinks",
	reads: set(partCalls, partDevices, partWaits, partExits, partLives, partRanges, partLabels, partFunctions, partStackNames,
		partMoment, partRecords, partSums, partDurations, partProcesses, partOthers, partThreads, partStates, partBreakdowns, partLoops, partBreakdownSites,
		partMissing, partRankSites, partStragglers, partLaunches, partXids, partGpus, partRequests, partRequestTimes, partInference, partLibraries, partPods, partReports, partFloor, partAllDrops, partStackPolicy,
		partMachineState, partReportedEvents, partIdle, partBlindSpots, partShown, partSites, partCulprits, partHidden, partEpisodes)}

// pipeline returns the stages of a session. The error names a stage in the wrong place.
func pipeline(recorded bool) ([]stage, error) {
	first, out := source, []stage{}
	if first.writes |= fromKernel; recorded {
		first.writes = source.writes | fromRecording
	}
	for i := range stages {
		if !stages[i].live || !recorded {
			out = append(out, stages[i])
		}
	}
	all := append(append([]stage{first}, out...), sinks)
	return out, check(all)
}

// addDrops adds a count that the analysis made, unless a recording already has it.
func addDrops(drops []tick.Drop, reason string, n uint64) []tick.Drop {
	if n == 0 || slices.ContainsFunc(drops, func(d tick.Drop) bool { return d.Reason == reason }) {
		return drops
	}
	return append(drops, tick.Drop{Reason: reason, Count: n})
}
