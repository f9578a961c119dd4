package tick

// Root is the end of the chain of waits behind a loss: the relation of its thread, and what that
// thread did. The advice follows from it.
type Root struct {
	Whose Whose
	Did   Did
}

// Whose is the relation of a thread to the process that lost time.
type Whose string

// The relations.
const (
	NoThread   Whose = ""        // none, or unknown
	OfItself   Whose = "itself"  // the thread that lost time
	OfProcess  Whose = "thread"  // another thread of its process
	OfWorker   Whose = "worker"  // a process started by the victim's process
	OfRank     Whose = "rank"    // another process of its job
	OfStranger Whose = "process" // a process outside its job
)

// Did is what a thread did.
type Did string

// The activities.
const (
	DidNotKnown Did = ""
	DidCompute  Did = "compute" // on a CPU
	DidCrowd    Did = "crowd"   // on a CPU that another thread of its job was ready to use
	DidRead     Did = "read"    // waited for a disk or file system, to read
	DidWrite    Did = "write"   // likewise, to write: until the data was stored
	DidPage     Did = "page"    // waited for a page of memory to be read
	DidPeer     Did = "peer"    // waited for another process or machine
	DidSleep    Did = "sleep"
	DidLock     Did = "lock"
	DidGPU      Did = "gpu" // waited for the driver
)

// OtherOfJob reports whether the thread is in another process of the job that lost time.
func (w Whose) OtherOfJob() bool { return w == OfWorker || w == OfRank }

// OfJob reports whether the thread belongs to the job that lost time.
func (w Whose) OfJob() bool { return w == OfItself || w == OfProcess || w.OtherOfJob() }
