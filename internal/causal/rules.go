package causal

// maxRules is how many rules there is room for in sums by rule.
const maxRules = 64

// Rules are all kinds of causes, in the order in which they are asked: the first that claims
// a part, or takes a finding over, has it. To know one more is to add a row.
var Rules []Rule

// claiming are the numbers of those that claim parts.
var claiming []uint8

// init fills them: rules look at the engine, which looks at the rules.
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
	}
	for i := range Rules {
		if Rules[i].Claims != nil {
			claiming = append(claiming, uint8(i))
		}
	}
}

// ruleNamed returns a rule's number, -1 for none.
func ruleNamed(name string) int {
	for i := range Rules {
		if Rules[i].Name == name {
			return i
		}
	}
	return -1
}

// RuleNames returns the names of all rules, in their order.
func RuleNames() []string {
	out := make([]string, len(Rules))
	for i := range Rules {
		out[i] = Rules[i].Name
	}
	return out
}
