package explain

import (
	"time"

	"ingero/internal/tick"
)

// Input is the data of a report: one window of a recording, or of the recordings of several
// processes.
type Input struct {
	From, To time.Time
	Node     string  // machine; empty: unspecified
	Source   string  // database or recording; empty: unspecified
	Labels   *Labels // what the report is restricted to; nil: the whole window
	// Processes are those traced in the window. Operations of others are reported by PID only.
	Processes []tick.Process
	// Ops are the operations of the window, with Sum, Dur, Hist and Thinned. An operation may occur
	// more than once, for example once per session.
	Ops  []tick.Op
	Gaps tick.Gaps // nil: the time between calls is unknown
	// Breakdowns and Chains are the session's results for the window, from the time ledger. Without
	// breakdowns, Ops and Gaps show where the time went. Threads are the accounts as of the end.
	Breakdowns []tick.Breakdown
	Chains     []tick.Chain  // most severe first
	Hidden     []tick.Hidden // chains that are not to be shown; they are counted
	Threads    []tick.Thread
	// Memory is the memory ledger of each process, as of the end.
	Memory map[uint32]tick.Memory
	// Launches are of GPU functions.
	Launches []tick.Launches
	GPUs     int            // of the machine; 0: unknown
	Requests *Requests      // to servers in the window; nil: none
	Xids     []tick.Xid     // faults of GPUs in the window
	Remarks  []string       // what a reader must know about the recording
	Servers  []*tick.Server // inference servers, from their own metrics
	Drops    []tick.Drop
	Reports  []tick.Report
	Host     *tick.Host // nil: unknown
	Self     *tick.Self // nil: unknown
	HostSums []tick.HostSum
	Serving  map[uint32]bool // processes that answered requests, if Requests and HostSums are missing
}

// Options describe the output. The zero value is 80 columns of plain text in UTC.
type Options struct {
	Width      int // columns; 0: 80
	Height     int // lines of the live table; 0: unlimited
	Color      bool
	NoTruncate bool           // no name or line is truncated, as in a file or a pipe; prose is still wrapped
	Location   *time.Location // reader's time zone; nil: UTC
	Detail     Detail         // of a report
	Choice     Choice         // of the live table and of its breakdown
}

// Detail is the level of detail of a report.
type Detail uint8

// The details.
const (
	Brief  Detail = iota // losses and their causes, or that there were none
	Shares               // also where every process's time went
	Tables               // also each operation
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
