package wire

// FlameNode is a function, a process or an operation in a call tree.
type FlameNode struct {
	Name     string       `json:"name"`
	Kind     string       `json:"kind,omitempty"` // process, python, native, gpu, gap, op
	PID      uint32       `json:"pid,omitempty"`  // of a process
	File     string       `json:"file,omitempty"`
	Line     int32        `json:"line,omitempty"`
	Module   string       `json:"module,omitempty"`
	Value    uint64       `json:"value"`
	Self     uint64       `json:"self"`               // not in any child
	Children []*FlameNode `json:"children,omitempty"` // largest first
}

// Flame is the answer of /api/v1/flame.
type Flame struct {
	Scope
	What    string    `json:"what"`
	Unit    string    `json:"unit"`
	Total   uint64    `json:"total"`
	Without uint64    `json:"without"` // calls without a stack
	Sampled float64   `json:"sampled"` // share of the calls that was read
	Root    FlameNode `json:"root"`
	Nodes   int       `json:"nodes"`
	Cut     int       `json:"cut"` // small nodes, counted in their parents
	Notes   []string  `json:"notes"`
}

// Stack sums up one operation's calls with one stack. Sampled stacks stand for the omitted
// calls.
type Stack struct {
	Site       string  `json:"site,omitempty"` // program location
	Op         string  `json:"op"`
	Node       string  `json:"node"`
	PID        uint32  `json:"pid"`
	Calls      uint64  `json:"calls"`
	WallNS     uint64  `json:"wall_ns"`
	GPUWaitNS  uint64  `json:"gpu_wait_ns"`
	RunnableNS uint64  `json:"runnable_ns"`
	LiveBytes  uint64  `json:"live_bytes"`    // allocated and not freed
	Frames     []Frame `json:"frames"`        // innermost first
	Cut        bool    `json:"cut,omitempty"` // the outermost are missing
}

// Frame is a function in a stack.
type Frame struct {
	Func   string `json:"func,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int32  `json:"line,omitempty"`
	Module string `json:"module,omitempty"` // for native code
}

// Stacks is the answer of /api/v1/stacks.
type Stacks struct {
	Node    string   `json:"node"`
	Without uint64   `json:"without"`        // calls without a stack
	Stacks  []Stack  `json:"stacks"`         // most time first
	More    int      `json:"more,omitempty"` // omitted rows, with less time
	Notes   []string `json:"notes"`
}
