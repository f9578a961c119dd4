package wire

// Version is the version of the JSON. It changes when a field changes its meaning or is removed.
const Version = 1

// Document is a JSON document that ingero writes.
type Document struct {
	Name  string // the command, or the path of the read API
	Value any    // a value of its type
}

// Documents are the documents that the generated schema describes.
var Documents = []Document{
	{"ingero explain --json", Report{}},
	{"ingero trace --json: tick", Tick{}},
	{"ingero trace --json: chain_begin, chain_update, chain_end, chain_revised", Episode{}},
	{"ingero trace --json: call", CallLine{}},
	{"ingero trace --json: wait", WaitLine{}},
	{"ingero trace --json: process", ProcessLine{}},
	{"ingero trace --json: function", FunctionLine{}},
	{"ingero trace --notify: the message", Notice{}},
	{"ingero xid --json: xid", Xid{}},
	{"ingero demo --json: an element, of several scenarios", Demo{}},
	{"ingero explain --nodes --json", FleetReport{}},
	{"ingero replay --check --json", ReplayCheck{}},
	{"ingero status --json", Status{}},
	{"ingero stuck --json", Stuck{}},
	{"ingero check --json", Check{}},
	{"ingero db info --json", DatabaseInfo{}},
	{"ingero db verify --json", Verified{}},
	{"ingero db repair --json", Repaired{}},
	{"ingero config show --json: an element", Setting{}},
	{"ingero silence --list --json: an element", Silence{}},
	{"ingero query --json", Operations{}},
	{"ingero query --calls --json: a line", CallLine{}},
	{"ingero query STATEMENT --json", Table{}},
	{"ingero summary --json", Losses{}},
	{"ingero diff --json", Diff{}},
	{"GET /api/v1/overview", Overview{}},
	{"GET /api/v1/ops", Operations{}},
	{"GET /api/v1/ops?sums=1", Ops{}},
	{"GET /api/v1/chains", Chains{}},
	{"GET /api/v1/snapshots", Snapshots{}},
	{"GET /api/v1/capabilities", Capabilities{}},
	{"GET /api/v1/graph-metrics", GraphMetrics{}},
	{"GET /api/v1/graph-events", GraphEvents[CallLine]{}},
	{"GET /api/v1/time", Clock{}},
	{"POST /api/v1/query", Rows{}},
	{"GET /api/v1/explain", Explained[Report]{}},
	{"GET /api/v1/stacks", Stacks{}},
	{"GET /api/v1/collectives", Collectives{}},
	{"GET /api/v1/timeline", Timeline{}},
	{"GET /api/v1/heatmap", Heatmap{}},
	{"GET /api/v1/requests", Requests{}},
	{"GET /api/v1/flame", Flame{}},
	{"GET /api/v1/memory", MemoryLines{}},
	{"GET /api/v1/gpus", GPULines{}},
	{"GET /api/v1/processes", Processes{}},
	{"GET /api/v1/recordings", Recordings{}},
	{"GET /api/v1/communicators", Communicators{}},
	{"GET /api/v1/fleet", Machines{}},
	{"GET /api/v1/updates: hello, data", Progress{}},
	{"GET /api/v1/updates: chain", ChainChange{}},
	{"error of the read API", Refusal{}},
	{"data in a file of ingero report", ReportFile{}},
}
