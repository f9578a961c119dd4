package tick

// Root is what a loss comes down to: whose thread was at the end of the chain of waits, and
// what it did there. What a person can do about a loss follows from it.
type Root struct {
	Whose Whose
	Did   Did
}

// Whose says how a thread belongs to the process that lost time.
type Whose string

// The relations.
const (
	NoThread   Whose = ""        // there is none, or it is not known
	OfItself   Whose = "itself"  // the thread that lost time
	OfProcess  Whose = "thread"  // another thread of its process
	OfWorker   Whose = "worker"  // of a process that its process started
	OfRank     Whose = "rank"    // of another process of its job
	OfStranger Whose = "process" // of a process that is not of its job
)

// Did is what a thread did.
type Did string

// The kinds of doing.
const (
	DidNotKnown Did = ""
	DidCompute  Did = "compute" // it was on a CPU
	DidCrowd    Did = "crowd"   // it was on a CPU that another thread of its job was ready for
	DidRead     Did = "read"    // it waited for a disk or file system, to read
	DidWrite    Did = "write"   // likewise, until what was written lay there
	DidPage     Did = "page"    // it waited for a page of memory to be read
	DidPeer     Did = "peer"    // it waited for another process or machine
	DidSleep    Did = "sleep"
	DidLock     Did = "lock"
	DidGPU      Did = "gpu" // it waited for the driver
)

// OtherOfJob says whether the thread is of another process of the job that lost time.
func (w Whose) OtherOfJob() bool { return w == OfWorker || w == OfRank }

// OfJob says whether the thread is of the job that lost time.
func (w Whose) OfJob() bool { return w == OfItself || w == OfProcess || w.OtherOfJob() }
