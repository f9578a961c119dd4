package unwind

// Limits of the kernel's maps: bpf/stackabi.h.
const (
	MaxSpaces   = 4096 // sets of mappings
	MaxMappings = 4095 // mappings of one set; those with the highest addresses are left out
	MaxObjects  = 4096 // files
)

// Means is how to find the callers of code in a mapping: enum unwind_means.
type Means uint8

// The means.
const (
	MeansTable Means = iota // the table of its file, when loaded
	MeansFP                 // frame pointers: its file has no .eh_frame
	MeansNone               // none: the code was made at run time
)

// Mapping is an executable mapping of a process.
type Mapping struct {
	Start, End uint64
	Bias       uint64 // difference of an address and the file's own
	Object     uint32 // MeansTable: number of the table
	Means      Means
}

// ObjectTable is the table of a numbered file.
type ObjectTable struct {
	Object uint32
	Words  []uint32
}

// End is the reason why a stack ended: enum walk_end.
type End uint8

// The reasons.
const (
	Done       End = iota // reached the thread's first frame
	Deep                  // truncated at the depth limit
	NoSpace               // the mappings of the process are not known, or not yet
	NoMapping             // the address is in no known mapping
	NoTable               // the file's table is not loaded, or not yet
	NoRule                // the table has no rule for the address
	JIT                   // the code was made at run time
	Unreadable            // the stack is not in memory
	Astray                // what was found cannot be a caller
	NotTaken              // no stack was requested
	Ends                  // the number of reasons
)

var endNames = [Ends]string{"whole", "too-deep", "process-not-known", "mapping-not-known", "table-not-loaded",
	"no-table-there", "made-at-run-time", "not-in-memory", "no-caller", "not-taken"}

// String returns the reason's name, as counters use it.
func (e End) String() string {
	if e < Ends {
		return endNames[e]
	}
	return "unknown"
}

// Kernel receives tables and mappings. BPF programs read them at any time, so each method replaces
// an entry as a whole.
type Kernel interface {
	PutRules(from int, rules []Rule) error
	// PutTables puts several tables at once, since the kernel waits for its programs each time. After
	// an error it has put none.
	PutTables([]ObjectTable) error
	DropTable(object uint32) error
	// PutMappings assigns a slot to a space. An id belongs to one space, and to these mappings
	// only.
	PutMappings(slot uint32, id uint64, maps []Mapping) error
	DropMappings(slot uint32) error
	SetSpace(pid, slot uint32, id uint64) error
	DropSpace(pid uint32) error
	// Seen reports whether stacks of a process were taken since SetSpace, and whether an address in
	// one was in no mapping.
	Seen(pid uint32) (used, missed bool)
	// Uses counts the lookups of a table, whether loaded or not. It wraps.
	Uses(object uint32) uint32
	// Misses counts the tables and mappings that were missing. It must be quick.
	Misses() uint64
}
