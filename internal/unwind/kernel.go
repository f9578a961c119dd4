package unwind

// Limits of the kernel's maps: bpf/stackabi.h.
const (
	MaxSpaces   = 4096 // sets of mappings
	MaxMappings = 4095 // of one set; those with the highest addresses are left out
	MaxObjects  = 4096 // files
)

// Means says by what the callers of code in a mapping are found: enum unwind_means.
type Means uint8

// The means.
const (
	MeansTable Means = iota // its file's table, when that is there
	MeansFP                 // frame pointers: its file has no .eh_frame
	MeansNone               // it is made at run time
)

// Mapping is an executable mapping of a process.
type Mapping struct {
	Start, End uint64
	Bias       uint64 // an address less this is one of the file
	Object     uint32 // MeansTable: number of the table
	Means      Means
}

// ObjectTable is the table of a file with a number.
type ObjectTable struct {
	Object uint32
	Words  []uint32
}

// End says why a stack has no more frames: enum walk_end.
type End uint8

// The ends.
const (
	Done       End = iota // the thread began there
	Deep                  // it goes on
	NoSpace               // the mappings of the process are not known, or not yet
	NoMapping             // the next address is in no mapping that is known
	NoTable               // the table of the file is not loaded, or not yet
	NoRule                // the table says nothing of the address
	JIT                   // the code was made at run time
	Unreadable            // the stack is not in memory
	Astray                // what was found cannot be a caller
	NotTaken              // they were not asked for
	Ends                  // how many there are
)

var endNames = [Ends]string{"whole", "too-deep", "process-not-known", "mapping-not-known", "table-not-loaded",
	"no-table-there", "made-at-run-time", "not-in-memory", "no-caller", "not-taken"}

// String returns the end's name, as in counts of what was lost.
func (e End) String() string {
	if e < Ends {
		return endNames[e]
	}
	return "unknown"
}

// Kernel is where tables and mappings go. Programs read them at any time, so each of its
// methods replaces a thing as a whole.
type Kernel interface {
	PutRules(from int, rules []Rule) error
	// PutTables puts several at once, since each time the kernel waits for its programs.
	PutTables([]ObjectTable) error
	DropTable(object uint32) error
	// PutMappings gives the slot to a space; an id is of one space, and of these mappings.
	PutMappings(slot uint32, id uint64, maps []Mapping) error
	DropMappings(slot uint32) error
	SetSpace(pid, slot uint32, id uint64) error
	DropSpace(pid uint32) error
	// Seen tells whether stacks of a process were taken since SetSpace, and whether an
	// address of one was in no mapping.
	Seen(pid uint32) (used, missed bool)
	// Uses counts the uses of a table, whether it was there or not. It wraps.
	Uses(object uint32) uint32
	// Misses grows with each table and mapping that was not there. It must be quick.
	Misses() uint64
}
