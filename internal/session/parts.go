package session

import (
	"fmt"
	"math/bits"
	"strings"
)

// part is a part of a batch or tick that one stage writes and later ones read. A part that a later
// stage completes has a new name from then on.
type part uint8

// The parts.
const (
	// Parts of a batch.
	partCalls      part = iota // calls, without devices
	partDevice                 // devices of calls, as recorded
	partDevices                // devices of calls, including those that the program chose
	partWaits                  // waits, with their wakers
	partExits                  // exits of threads
	partLives                  // forks, execs and exits of processes
	partRanges                 // NVTX ranges
	partLabels                 // changes of labels
	partTexts                  // strings passed to calls
	partLearnt                 // names of GPU functions that arrived with the batch
	partFunctions              // and those found since
	partRawStacks              // stacks as addresses
	partNamed                  // stacks that arrived with names
	partStackNames             // and those named since
	partFaults                 // GPU faults
	partSteps                  // from one return of a synchronizing call to the next

	// Parts of a tick.
	partMoment         // number and time of the tick, and the wall clock's distance
	partRecords        // number of records read
	partSums           // of operations, counted by the kernel
	partDurations      // of operations: the tick's share of the sums, and distributions
	partProcesses      // traced processes
	partOthers         // untraced processes
	partThreads        // threads and their accounts
	partStates         // states derived from calls
	partBreakdowns     // where the time went
	partLoops          // loops of breakdowns
	partBreakdownSites // of breakdowns: places of lock holders, of awaited threads, and of own code
	partMissing        // collectives with missing ranks
	partRankSites      // places of the missing ranks
	partStragglers     // how long ranks were waited for
	partLaunches       // launches by function
	partRecordedXids   // faults from a recording
	partXids           // all faults
	partGpus           // GPUs and their states
	partRequests       // requests to servers
	partRequestTimes   // what the servers' engines did meanwhile
	partInference      // metrics of inference servers
	partLibraries      // libraries with probes
	partPods           // pods that request GPUs
	partReports        // reports of failures
	partFloor          // reports on the bound on overhead
	partDrops          // drops of the source
	partStateDrops     // and those of states
	partFaultDrops     // and those of faults
	partCauseDrops     // and those of causes
	partAllDrops       // and those of stacks
	partStackPolicy    // which calls have stacks
	partMachineState   // state of the host and the agent, and the cost of tracing
	partHostEvents     // host sums from the source
	partMachineEvents  // and those from the machine's files
	partReportedEvents // without those of idle ticks, which are held for the next one
	partIdle           // whether the tick is idle
	partChains         // causes of lost time
	partBlindSpots     // causes that cannot be found now
	partSites          // lines of code of chains and culprits
	partCulprits       // owners of the culprits
	partShown          // chains without hidden ones
	partHidden         // hidden chains
	partEpisodes       // starts and ends of chains
	partsEnd
)

// partFields has the fields of parts: fields of a polled batch or of a tick; "[]" stands for each
// element of a list. The longer of two matching paths owns a field.
var partFields = [partsEnd][]string{
	partCalls: {"Calls"}, partDevice: {"Calls[].Device"}, partDevices: {"Calls[].Device"}, partWaits: {"Waits"}, partExits: {"Ended"}, partLives: {"Procs"}, partRanges: {"Ranges"}, partLabels: {"Labels"}, partTexts: {"Texts"},
	partLearnt: {"Functions"}, partFunctions: {"Functions"}, partRawStacks: {"RawStacks"}, partNamed: {"Stacks"}, partStackNames: {"Stacks"}, partFaults: {"Faults"}, partSteps: {"Steps"},

	partMoment: {"Time", "Started", "Seq", "Window", "Ahead", "Final"}, partRecords: {"Records"}, partSums: {"Ops"}, partDurations: {"Ops[].Last", "Ops[].Dur", "Ops[].DurLast", "Ops[].Thinned"},
	partProcesses: {"Processes"}, partOthers: {"Others"}, partThreads: {"Threads"}, partStates: {"States"},
	partBreakdowns: {"Breakdowns"}, partLoops: {"Breakdowns[].Loop"}, partBreakdownSites: {"Breakdowns[].BlockedOn[].At", "Breakdowns[].BlockedOn[].WakerAt", "Breakdowns[].Code"},
	partMissing: {"RollCalls"}, partRankSites: {"RollCalls[].Missing[].At"}, partStragglers: {"Lates"}, partLaunches: {"Launches"}, partRecordedXids: {"Xids"}, partXids: {"Xids"},
	partGpus: {"GPUs"}, partRequests: {"Requests"}, partRequestTimes: {"Requests[].ToFirst", "Requests[].After", "Requests[].EnginePID", "Requests[].EngineTID", "Requests[].Split", "Requests[].AtOnce", "Requests[].TokenSteps", "EngineSteps"}, partInference: {"Inference"}, partLibraries: {"Libraries", "HostProbes"}, partPods: {"Pods"}, partReports: {"Reports"}, partFloor: {"Reports"}, partDrops: {"Drops"}, partStateDrops: {"Drops"}, partFaultDrops: {"Drops"}, partCauseDrops: {"Drops"}, partAllDrops: {"Drops"}, partStackPolicy: {"StackPolicy"},
	partMachineState: {"Host", "Self", "Overhead"}, partHostEvents: {"HostSums"}, partMachineEvents: {"HostSums"}, partReportedEvents: {"HostSums"}, partIdle: {"Idle"},
	partChains: {"Chains"}, partBlindSpots: {"Untold"}, partSites: {"Chains[].At", "Chains[].Culprits[].At", "Chains[].Culprits[].Waited"},
	partCulprits: {"Chains[].Culprits[].Cgroup", "Chains[].Culprits[].Cmdline", "Chains[].Culprits[].Where", "Chains[].Culprits[].Parent",
		"Chains[].Culprits[].Sharers[].Cmdline", "Chains[].Culprits[].Sharers[].Where"},
	partShown: {"Chains"}, partHidden: {"Hidden"}, partEpisodes: {"Episodes"},
}

// parts is a set of parts.
type parts uint64

// set returns the set of the listed parts.
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

// String returns the fields of a part.
func (p part) String() string { return strings.Join(partFields[p], ", ") }

// check returns an error unless every stage follows the stages that write its inputs, and each part
// is written once.
func check(stages []stage) error {
	by := map[part]string{}
	for i := range stages {
		s := &stages[i]
		for _, p := range s.reads.list() {
			if by[p] == "" {
				return fmt.Errorf("stage %q takes %v, which %s", s.name, p, providerOf(stages[i:], p))
			}
		}
		for _, p := range s.writes.list() {
			if by[p] != "" {
				return fmt.Errorf("stages %q and %q both give %v", by[p], s.name, p)
			}
			by[p] = s.name
		}
	}
	return nil
}

func providerOf(later []stage, p part) string {
	for i := range later {
		if later[i].writes&(1<<p) != 0 {
			return fmt.Sprintf("stage %q gives only then", later[i].name)
		}
	}
	return "no stage gives"
}
