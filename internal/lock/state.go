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

// State is what a holder tells everyone about itself.
type State struct {
	Holder
	Updated   time.Time         `json:"updated"`
	Processes []Process         `json:"processes"`
	Libraries int               `json:"libraries"` // traced shared objects
	Probes    int               `json:"probes"`    // functions with probes in them
	Calls     uint64            `json:"calls"`     // counted in the kernel, exactly
	Records   uint64            `json:"records"`   // read from the ring
	Drops     map[string]uint64 `json:"drops,omitempty"`
	LastLoss  time.Time         `json:"last_loss"` // when Drops last grew; zero: never
	CPU       time.Duration     `json:"cpu_ns"`    // of the agent since it began
	RSS       int64             `json:"rss_bytes"` // of the agent, now
	DBBytes   int64             `json:"db_bytes"`  // all files of the database
	// Overhead is what tracing costs, in words; empty: it has no bound. Shed are the
	// steps that are taken so that it stays within that.
	Overhead string   `json:"overhead,omitempty"`
	Shed     []string `json:"shed,omitempty"`
	// Open are the calls that have not returned for a while, as of Updated: the
	// longest first, at most MaxOpen. MoreOpen is how many there are beside.
	Open     []OpenCall `json:"open,omitempty"`
	MoreOpen int        `json:"more_open,omitempty"`
	// RollCalls are the collectives that ranks are missing from.
	RollCalls []RollCall `json:"roll_calls,omitempty"`
	// Unranked are the processes with communicators that were made before the trace: which
	// ranks they are is not known.
	Unranked int `json:"unranked,omitempty"`
	// Problems are what keeps it from doing all it was asked to, in words.
	Problems []string `json:"problems,omitempty"`
	// Exports are where it sends what it sees, and how that goes.
	Exports []Export `json:"exports,omitempty"`
}

// Export is one kind of output that goes elsewhere.
type Export struct {
	Name    string            `json:"name"`           // "otlp traces"
	To      string            `json:"to"`             // without what may be secret
	Sent    uint64            `json:"sent"`           // items that were accepted
	Lost    map[string]uint64 `json:"lost,omitempty"` // items that were not, by reason
	Problem string            `json:"problem,omitempty"`
}

// MaxOpen bounds the open calls of a state, which everyone may read once a second.
const MaxOpen = 64

// OpenCall is a call that has not returned, and what its thread did as of Updated.
type OpenCall struct {
	PID    uint32    `json:"pid"`
	TID    uint32    `json:"tid"`
	Comm   string    `json:"comm"`             // of the process
	Thread string    `json:"thread,omitempty"` // of the thread, where it has another name
	Op     string    `json:"op"`
	Inner  string    `json:"inner,omitempty"` // the innermost traced call in it
	Since  time.Time `json:"since"`
	// State is on-cpu, runnable, throttled or blocked, since StateSince; the last
	// on Reason, in Syscall. FD is the file descriptor that this was called with,
	// -1: none; File and Dev are the kind of that file and its device.
	State      string    `json:"state"`
	StateSince time.Time `json:"state_since,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	Syscall    string    `json:"syscall,omitempty"`
	FD         int       `json:"fd"`
	File       string    `json:"file,omitempty"`
	Dev        uint32    `json:"dev,omitempty"` // major << 20 | minor
	CPU        uint16    `json:"cpu"`           // on which it is, or was last
}

// RollCall is a collective that ranks of a communicator are missing from.
type RollCall struct {
	Comm    string    `json:"comm"`
	Ranks   uint32    `json:"ranks,omitempty"` // of the communicator, wherever they run
	Seq     uint64    `json:"sequence"`        // of the collective, from 1
	Op      string    `json:"op,omitempty"`
	Since   time.Time `json:"since"` // when the first rank entered it
	Text    string    `json:"text"`  // who is missing, and who waits
	Entered []Rank    `json:"entered"`
	Missing []Missing `json:"missing"`
}

// Rank is a rank of a communicator; one below 0 is not known.
type Rank struct {
	Rank int32  `json:"rank"`
	PID  uint32 `json:"pid"`
}

// Missing is a rank that has not entered a collective. Where its thread lives, the call
// says what that does; its Op is empty between calls.
type Missing struct {
	Rank  int32 `json:"rank"`
	Lives bool  `json:"lives"`
	OpenCall
	At      string `json:"at,omitempty"` // where in the program the call, or its last collective, was made
	Instead string `json:"instead"`      // in words
}

// Process is a traced process.
type Process struct {
	PID  uint32 `json:"pid"`
	Comm string `json:"comm"`
	// Mapped is when it loaded its first CUDA library, Attached when that had its
	// probes: calls in between were not seen.
	Mapped   time.Time `json:"mapped,omitzero"`
	Attached time.Time `json:"attached,omitzero"`
	// Counted says that its launches are counted and not timed, see --max-overhead.
	Counted bool `json:"launches_counted,omitempty"`
}

// ErrNoState says that a holder has published nothing that can be read here.
var ErrNoState = errors.New("no state")

// Publish replaces the state that others read. It fills in the holder.
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

// State reads what the holder h has published. What an earlier holder left
// behind is not it: the error is [ErrNoState] then.
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
		Resolve: unix.RESOLVE_IN_ROOT, // /var/run is a link to /run, which is to be theirs
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
