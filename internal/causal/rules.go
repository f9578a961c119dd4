package causal

// maxRules is the size of arrays indexed by rule.
const maxRules = 64

// Rules is the table of all rules. If several claim a part, or take over a finding, the first gets
// it.
var Rules []Rule

// claiming has the indexes in Rules of rules with claims.
var claiming []uint8

// init fills the table: rules refer to the engine, and the engine to the rules.
func init() {
	Rules = []Rule{
		cpuThrottled,
		cpuStolen,
		stopped,
		debugger,
		cpusetShrunk,
		burstOfPrograms,
		ownThreads,
		cpuTaken,
		oomKill,
		memoryLimit,
		memoryReclaim,
		swapIn,
		diskWait,
		gilWait,
		inputWait,
		tcpLoss,
		toolCall,
		peerSlow,
		agentBurst,
		driverSlow,
		lockWait,
		allocSlow,
		freeWaits,
		graphPool,
		callSlow,
		allocStorm,
		copyPageable,
		copiesSmall,
		copyHeavy,
		syncHeavy,
		coldStart,
		memoryLeak,
		graphOOM,
		kvCachePressure,
		gpuFragmentation,
		gpuOOM,
		modelSwap,
		graphRecapture,
		graphUnused,
		graphWarmup,
		prefillStall,
		kvPreemption,
		slowClient,
		frontendSlow,
		schedulerCPU,
		adapterSwap,
		cudaAfterFork,
		versionMismatch,
		deviceAssert,
		gpuBehind,
		ncclDead,
		ncclMissing,
		ncclStraggler,
		xidFault,
		gpuThrottled,
		gpuShared,
		gpuSlower,
		ownCode, // it looks at the findings of all others
	}
	for i := range Rules {
		if Rules[i].Claims != nil {
			claiming = append(claiming, uint8(i))
		}
	}
}

// ruleNamed returns a rule's index, or -1.
func ruleNamed(name string) int {
	for i := range Rules {
		if Rules[i].Name == name {
			return i
		}
	}
	return -1
}

// OldName is the 0.9 name of graph-warmup. It is accepted where a rule is named.
const OldName = "graph-capture-warmup"

// RuleCalled returns the current name of a rule that has this name now, or had it in 0.9.
func RuleCalled(name string) string {
	if name == OldName {
		return graphWarmup.Name
	}
	return name
}

// RuleNames returns the names of all rules, in table order.
func RuleNames() []string {
	out := make([]string, len(Rules))
	for i := range Rules {
		out[i] = Rules[i].Name
	}
	return out
}
