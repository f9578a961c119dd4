package explain

import (
	"time"

	"ingero/internal/tick"
)

// Input is what a report is made from: one window of one recording, or of
// several processes' worth of them.
type Input struct {
	From, To time.Time
	Node     string // the machine; empty: not said
	Source   string // the database or the recording; empty: not said
	// Processes are those that were traced in the window. Operations of others
	// are reported under their number alone.
	Processes []tick.Process
	// Ops are the operations of the window: of each, Sum, Dur, Hist and Thinned.
	// An operation may occur more than once (once per session, say).
	Ops  []tick.Op
	Gaps tick.Gaps // nil: the time between calls is not known
	// Breakdowns and Chains are what a session makes of the window, by the time
	// ledger; without any, where the time went is told from Ops and Gaps. Threads
	// are the accounts as of the end.
	Breakdowns []tick.Breakdown
	Chains     []tick.Chain  // the gravest first
	Hidden     []tick.Hidden // chains that are not to be shown; how many is said
	Threads    []tick.Thread
	// Memory is the ledger of each process's memory, as of the end.
	Memory map[uint32]tick.Memory
	// Launches are of GPU functions.
	Launches []tick.Launches
	GPUs     int        // of the machine; 0: not known
	Xids     []tick.Xid // faults of GPUs in the window
	Remarks  []string   // what a reader must know of the recording
	Drops    []tick.Drop
	Reports  []tick.Report
	Host     *tick.Host // nil: not known
	Self     *tick.Self // nil: not known
	HostSums []tick.HostSum
}

// Options say for whom something is written. The zero value is 80 columns of
// plain text in UTC.
type Options struct {
	Width    int // columns; 0: 80
	Height   int // lines of the live table; 0: all it takes
	Color    bool
	Whole    bool           // no name or line is cut, as in a file or a pipe; prose is still wrapped
	Location *time.Location // the reader's; nil: UTC
	Detail   Detail         // of a report
	Choice   Choice         // of the live table and of where its time went
}

// Detail is how much a report tells.
type Detail uint8

// The details.
const (
	Brief  Detail = iota // what was lost and why; that nothing was, where nothing was
	Shares               // and where the time of every process went
	Tables               // and each operation
)

func (o *Options) width() int {
	if o.Width <= 0 {
		return 80
	}
	return o.Width
}

func (o *Options) location() *time.Location {
	if o.Location == nil {
		return time.UTC
	}
	return o.Location
}
