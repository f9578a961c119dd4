package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ingero/internal/wire"
)

// MaxOpen bounds the open calls of a state, which everyone may read once a second.
const MaxOpen = 64

// ErrNoState means that a holder has published no state that is readable here.
var ErrNoState = errors.New("no state")

// Publish replaces the public state. It fills in the holder.
func (l *Lock) Publish(s wire.TraceState) error {
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
func (p Place) State(h wire.Holder) (wire.TraceState, error) {
	for _, root := range []string{"/", fmt.Sprintf("/proc/%d/root", h.PID)} { // it may be in a container
		for _, dir := range p.Dirs {
			if s, err := readState(root, filepath.Join(dir, stateName), h); err == nil {
				return s, nil
			}
		}
	}
	return wire.TraceState{}, ErrNoState
}

// readState reads a state file as a process with this root directory sees it.
func readState(root, path string, h wire.Holder) (wire.TraceState, error) {
	var s wire.TraceState
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
