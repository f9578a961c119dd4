package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// State is a holder's public state.
type State struct {
	Holder
	Updated   time.Time         `json:"updated"`
	Processes []Process         `json:"processes"`
	Libraries int               `json:"libraries"` // traced shared objects
	Probes    int               `json:"probes"`    // functions with probes
	Calls     uint64            `json:"calls"`     // exact, from the kernel
	Records   uint64            `json:"records"`   // read from the ring
	Drops     map[string]uint64 `json:"drops,omitempty"`
	LastLoss  time.Time         `json:"last_loss"` // last growth of Drops; zero: never
	CPU       time.Duration     `json:"cpu_ns"`    // the agent's, since its start
	RSS       int64             `json:"rss_bytes"` // the agent's, now
	DBBytes   int64             `json:"db_bytes"`  // all files of the database
	// Overhead is the cost of tracing, as text; empty: it has no limit. Shed are the steps taken to
	// stay within the limit.
	Overhead string   `json:"overhead,omitempty"`
	Shed     []string `json:"shed,omitempty"`
	// Open are the calls that have not returned for a while, as of Updated: longest first, at most
	// MaxOpen. MoreOpen counts the others.
	Open     []OpenCall `json:"open,omitempty"`
	MoreOpen int        `json:"more_open,omitempty"`
	// RollCalls are the collectives with missing ranks.
	RollCalls []RollCall `json:"roll_calls,omitempty"`
	// Unranked is the number of processes with communicators from before the trace, whose ranks are
	// unknown.
	Unranked int `json:"unranked,omitempty"`
	// Problems are what keeps the trace from being complete, as text.
	Problems []string `json:"problems,omitempty"`
	// Exports are the exports' destinations and progress.
	Exports []Export `json:"exports,omitempty"`
}

// Export is the state of one kind of export.
type Export struct {
	Name    string            `json:"name"`           // "otlp traces"
	To      string            `json:"to"`             // without secrets
	Sent    uint64            `json:"sent"`           // accepted items
	Lost    map[string]uint64 `json:"lost,omitempty"` // lost items, by reason
	Problem string            `json:"problem,omitempty"`
}

// MaxOpen bounds the open calls of a state, which everyone may read once a second.
const MaxOpen = 64

// OpenCall is a call that has not returned, with its thread's state as of Updated.
type OpenCall struct {
	PID    uint32    `json:"pid"`
	TID    uint32    `json:"tid"`
	Comm   string    `json:"comm"`             // process name
	Thread string    `json:"thread,omitempty"` // thread name, if different
	Op     string    `json:"op"`
	Inner  string    `json:"inner,omitempty"` // innermost traced call in it
	Since  time.Time `json:"since"`
	// State is on-cpu, runnable, throttled or blocked, since StateSince; a blocked thread has a
	// Reason and a Syscall. FD is the file descriptor in that system call, -1: none; File and Dev
	// are the kind of that file and its device.
	State      string    `json:"state"`
	StateSince time.Time `json:"state_since,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	Syscall    string    `json:"syscall,omitempty"`
	FD         int       `json:"fd"`
	File       string    `json:"file,omitempty"`
	Dev        uint32    `json:"dev,omitempty"` // major << 20 | minor
	CPU        uint16    `json:"cpu"`           // current or last CPU
}

// RollCall is a collective with missing ranks of a communicator.
type RollCall struct {
	Comm    string    `json:"comm"`
	Ranks   uint32    `json:"ranks,omitempty"` // of the communicator, on all machines
	Seq     uint64    `json:"sequence"`        // the collective's number, from 1
	Op      string    `json:"op,omitempty"`
	Since   time.Time `json:"since"` // entry of the first rank
	Text    string    `json:"text"`  // missing and waiting ranks, as text
	Entered []Rank    `json:"entered"`
	Missing []Missing `json:"missing"`
}

// Rank is a rank of a communicator; below 0: unknown.
type Rank struct {
	Rank int32  `json:"rank"`
	PID  uint32 `json:"pid"`
}

// Missing is a rank that has not entered a collective. If its thread is alive, the call is what it
// does instead; its Op is empty between calls.
type Missing struct {
	Rank  int32 `json:"rank"`
	Lives bool  `json:"lives"`
	OpenCall
	At      string `json:"at,omitempty"` // program location of the call, or of its last collective
	Instead string `json:"instead"`      // as text
}

// Process is a traced process.
type Process struct {
	PID  uint32 `json:"pid"`
	Comm string `json:"comm"`
	// Mapped is when it loaded its first CUDA library, Attached when that library had its probes:
	// calls in between were not traced.
	Mapped   time.Time `json:"mapped,omitzero"`
	Attached time.Time `json:"attached,omitzero"`
	// Counted reports that its launches are counted and not timed, see --max-overhead.
	Counted bool `json:"launches_counted,omitempty"`
}

// ErrNoState means that a holder has published no state that is readable here.
var ErrNoState = errors.New("no state")

// Publish replaces the public state. It fills in the holder.
func (l *Lock) Publish(s State) error {
	s.Holder = l.self
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(l.dir, "."+stateName+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(l.dir, stateName))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("publish the state: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// State reads the state that holder h has published. It returns [ErrNoState] for an earlier
// holder's state.
func (p Place) State(h Holder) (State, error) {
	for _, root := range []string{"/", fmt.Sprintf("/proc/%d/root", h.PID)} { // it may be in a container
		for _, dir := range p.Dirs {
			if s, err := readState(root, filepath.Join(dir, stateName), h); err == nil {
				return s, nil
			}
		}
	}
	return State{}, ErrNoState
}

// readState reads a state file as a process with this root directory sees it.
func readState(root, path string, h Holder) (State, error) {
	var s State
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, err
	}
	defer func() { _ = unix.Close(dir) }()
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT, // /var/run is a link to /run, which must be inside root
	})
	if err != nil {
		return s, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return s, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&unix.S_IWOTH != 0 || st.Uid != h.UID {
		return s, ErrNoState
	}
	text, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, err
	}
	if s.PID != h.PID {
		return s, ErrNoState
	}
	return s, nil
}
