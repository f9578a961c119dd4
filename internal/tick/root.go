package tick

// Root is the end of the chain of waits behind a loss: the relation of its thread, and what that
// thread did. The advice follows from it.
type Root struct {
	Whose Relation
	Did   Activity
}

// Relation is the relation of a thread to the process that lost time.
type Relation string

// The relations.
const (
	RelationUnknown  Relation = ""        // none, or unknown
	RelationSelf     Relation = "itself"  // the thread that lost time
	RelationThread   Relation = "thread"  // another thread of its process
	RelationWorker   Relation = "worker"  // a process started by the victim's process
	RelationRank     Relation = "rank"    // another process of its job
	RelationStranger Relation = "process" // a process outside its job
)

// Activity is what a thread did.
type Activity string

// The activities.
const (
	ActivityUnknown Activity = ""
	ActivityCompute Activity = "compute" // on a CPU
	ActivityCrowd   Activity = "crowd"   // on a CPU that another thread of its job was ready to use
	ActivityRead    Activity = "read"    // waited for a disk or file system, to read
	ActivityWrite   Activity = "write"   // likewise, to write: until the data was stored
	ActivityPage    Activity = "page"    // waited for a page of memory to be read
	ActivityPeer    Activity = "peer"    // waited for another process or machine
	ActivitySleep   Activity = "sleep"
	ActivityLock    Activity = "lock"
	ActivityGPU     Activity = "gpu"  // waited for the driver
	ActivityHold    Activity = "hold" // held a file lock
)

// InOtherProcessOfJob reports whether the thread is in another process of the job that lost time.
func (w Relation) InOtherProcessOfJob() bool { return w == RelationWorker || w == RelationRank }

// InJob reports whether the thread belongs to the job that lost time.
func (w Relation) InJob() bool {
	return w == RelationSelf || w == RelationThread || w.InOtherProcessOfJob()
}
