package session

import (
	"fmt"
	"math/bits"
	"strings"
)

// part is a part of a batch or of a tick: what one stage gives, and later ones take. A part
// that a stage completes has a new name from then on.
type part uint8

// The parts.
const (
	// Of a batch.
	partCalls      part = iota // without devices
	partDevice                 // of calls, as a recording has it
	partDevices                // of calls, also those that the program chose
	partWaits                  // with who ended them
	partExits                  // of threads
	partLives                  // of processes
	partRanges                 // of NVTX
	partTexts                  // that calls were given
	partLearnt                 // names of GPU functions that came with the batch
	partFunctions              // those that have become known since, too
	partRawStacks              // addresses
	partNamed                  // stacks that came with names
	partStackNames             // those that have got theirs since, too
	partFaults                 // of GPUs
	partSteps                  // from one return of a synchronising call to the next

	// Of a tick.
	partMoment        // which tick it is, of which time
	partRecords       // how many were read
	partSums          // of operations, by the kernel
	partDurations     // of operations: the tick's share of sums, and distributions
	partProcesses     // that are traced
	partOthers        // processes that are not
	partThreads       // and their accounts
	partStates        // what follows from calls
	partBreakdowns    // where the time went
	partLoops         // of breakdowns
	partLockSites     // of breakdowns: where locks were held, and where who was waited for was
	partMissing       // collectives that ranks are missing from
	partRankSites     // of these: where the ranks are
	partLates         // for how long ranks were waited for
	partLaunches      // by function
	partToldXids      // faults that a recording has
	partXids          // all faults
	partGpus          // and their states
	partLibraries     // that have probes
	partPods          // that ask for GPUs
	partReports       // of what could not be done
	partFloor         // likewise: of the bound on what tracing costs
	partDrops         // of the source
	partFaultDrops    // with those of faults
	partAllDrops      // with those of stacks
	partStackPolicy   // which calls have a stack
	partMachineState  // of the host and the agent, and what tracing costs
	partHostEvents    // that the source saw
	partMachineEvents // with those that the machine's files tell
	partToldEvents    // without those of idle ticks, which the next tick has
	partIdle          // nothing to tell of the machine
	partChains        // causes of lost time
	partUntold        // causes that cannot be told
	partSites         // of chains and their culprits: lines of code
	partCulprits      // of chains: whose the culprits are
	partShown         // chains without hidden ones
	partHidden        // chains that are not to be shown
	partEpisodes      // in the lives of chains
	partsEnd
)

// partFields are where parts lie: fields of a polled batch or of a tick, with "[]" behind
// those whose elements have the rest. Of two paths the longer one has what both could have.
var partFields = [partsEnd][]string{
	partCalls: {"Calls"}, partDevice: {"Calls[].Device"}, partDevices: {"Calls[].Device"}, partWaits: {"Waits"}, partExits: {"Ended"}, partLives: {"Procs"}, partRanges: {"Ranges"}, partTexts: {"Texts"},
	partLearnt: {"Functions"}, partFunctions: {"Functions"}, partRawStacks: {"RawStacks"}, partNamed: {"Stacks"}, partStackNames: {"Stacks"}, partFaults: {"Faults"}, partSteps: {"Steps"},

	partMoment: {"Time", "Started", "Seq", "Window", "Final"}, partRecords: {"Records"}, partSums: {"Ops"}, partDurations: {"Ops[].Last", "Ops[].Dur", "Ops[].DurLast", "Ops[].Thinned"},
	partProcesses: {"Processes"}, partOthers: {"Others"}, partThreads: {"Threads"}, partStates: {"States"},
	partBreakdowns: {"Breakdowns"}, partLoops: {"Breakdowns[].Loop"}, partLockSites: {"Breakdowns[].BlockedOn[].At", "Breakdowns[].BlockedOn[].WakerAt"},
	partMissing: {"RollCalls"}, partRankSites: {"RollCalls[].Missing[].At"}, partLates: {"Lates"}, partLaunches: {"Launches"}, partToldXids: {"Xids"}, partXids: {"Xids"},
	partGpus: {"GPUs"}, partLibraries: {"Libraries", "HostProbes"}, partPods: {"Pods"}, partReports: {"Reports"}, partFloor: {"Reports"}, partDrops: {"Drops"}, partFaultDrops: {"Drops"}, partAllDrops: {"Drops"}, partStackPolicy: {"StackPolicy"},
	partMachineState: {"Host", "Self", "Overhead"}, partHostEvents: {"HostSums"}, partMachineEvents: {"HostSums"}, partToldEvents: {"HostSums"}, partIdle: {"Idle"},
	partChains: {"Chains"}, partUntold: {"Untold"}, partSites: {"Chains[].At", "Chains[].Culprits[].At"},
	partCulprits: {"Chains[].Culprits[].Cgroup", "Chains[].Culprits[].Cmdline", "Chains[].Culprits[].Where", "Chains[].Culprits[].Parent"},
	partShown:    {"Chains"}, partHidden: {"Hidden"}, partEpisodes: {"Episodes"},
}

// parts is a set of them.
type parts uint64

// set returns the set of some parts.
func set(list ...part) (s parts) {
	for _, p := range list {
		s |= 1 << p
	}
	return s
}

// list returns the parts of a set.
func (s parts) list() (out []part) {
	for ; s != 0; s &= s - 1 {
		out = append(out, part(bits.TrailingZeros64(uint64(s))))
	}
	return out
}

// String returns where a part lies.
func (p part) String() string { return strings.Join(partFields[p], ", ") }

// check tells whether every stage comes after those that give what it takes, and whether
// each part is given once.
func check(stages []stage) error {
	by := map[part]string{}
	for i := range stages {
		s := &stages[i]
		for _, p := range s.takes.list() {
			if by[p] == "" {
				return fmt.Errorf("stage %q takes %v, which %s", s.name, p, giver(stages[i:], p))
			}
		}
		for _, p := range s.gives.list() {
			if by[p] != "" {
				return fmt.Errorf("stages %q and %q both give %v", by[p], s.name, p)
			}
			by[p] = s.name
		}
	}
	return nil
}

func giver(later []stage, p part) string {
	for i := range later {
		if later[i].gives&(1<<p) != 0 {
			return fmt.Sprintf("stage %q gives only then", later[i].name)
		}
	}
	return "no stage gives"
}
