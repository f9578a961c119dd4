package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/wire"
)

const (
	lockName  = "ingero-trace.lock"
	stateName = "ingero-trace.json"
)

// Place is where the lock is.
type Place struct {
	// Dirs are tried in order, until a file can be created.
	Dirs []string
	// Mark is the offset of the record lock that identifies holders.
	Mark int64
}

// Host returns the machine's place.
func Host() Place {
	return Place{
		Dirs: []string{"/var/run", "/tmp"},
		Mark: 0x696e6765726f, // "ingero"
	}
}

// LockedError means that another process has the lock.
type LockedError struct{ Holder wire.Holder }

// Error names the holder.
func (e *LockedError) Error() string {
	return fmt.Sprintf("held by pid %d (%s)", e.Holder.PID, e.Holder.Command)
}

// UnsafeError means that a file at the lock's path must not be written to.
type UnsafeError struct{ Path, Why string }

// Error names the file.
func (e *UnsafeError) Error() string { return e.Path + " " + e.Why }

// Lock is a lock held by this process.
type Lock struct {
	// Stale is the previous holder if it died without releasing the lock, else nil.
	Stale *wire.Holder

	file *os.File
	dir  string
	self wire.Holder
}

// Acquire takes the lock in the name of self, whose PID and UID it fills in. It fails with a
// *LockedError if another process has it.
func (p Place) Acquire(self wire.Holder) (*Lock, error) {
	self.PID, self.UID = os.Getpid(), uint32(os.Geteuid())
	f, dir, err := p.open()
	if err != nil {
		return nil, err
	}
	l := &Lock{file: f, dir: dir, self: self}
	if err := l.take(p); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// take locks the open file and writes the holder into it.
func (l *Lock) take(p Place) error {
	switch err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		if h, err := p.Holder(); err == nil && h != nil {
			return &LockedError{*h}
		}
		return &LockedError{l.last()}
	case err != nil:
		return fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	mark := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: p.Mark, Len: 1}
	if err := unix.FcntlFlock(l.file.Fd(), unix.F_SETLK, &mark); err != nil {
		return fmt.Errorf("mark %s: %w", l.file.Name(), err)
	}
	// Mark before looking, so that of two processes that start at once in different containers at
	// least one sees the other.
	h, err := p.Holder()
	if err != nil {
		return err
	}
	if h != nil {
		return &LockedError{*h}
	}
	if old := l.last(); old.PID != 0 {
		l.Stale = &old
	}
	text, err := json.Marshal(l.self)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// last reads the holder from the file; zero if there is none.
func (l *Lock) last() wire.Holder {
	var h wire.Holder
	text := make([]byte, 64<<10)
	n, _ := l.file.ReadAt(text, 0)
	if json.Unmarshal(text[:n], &h) != nil {
		return wire.Holder{}
	}
	return h
}

// Dir returns the directory of the lock's files.
func (l *Lock) Dir() string { return l.dir }

// Release releases the lock and removes its files. It is idempotent.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	errs := []error{os.Remove(filepath.Join(l.dir, stateName)), os.Remove(l.file.Name()), l.file.Close()}
	l.file = nil
	for i, err := range errs {
		if errors.Is(err, os.ErrNotExist) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// open creates or opens the lock file in the first directory that allows it.
func (p Place) open() (*os.File, string, error) {
	var errs []error
	for _, dir := range p.Dirs {
		f, err := openOwn(filepath.Join(dir, lockName))
		if err == nil {
			return f, dir, nil
		}
		errs = append(errs, err)
		if !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EROFS) {
			break
		}
	}
	return nil, "", errors.Join(errs...)
}

// openOwn opens a file only if this user created it: in a world-writable directory, another user
// may have planted a link.
func openOwn(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if errors.Is(err, unix.ELOOP) {
			return nil, &UnsafeError{path, "is a symbolic link"}
		}
		if err != nil {
			return nil, err
		}
		var st, now unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		why := ""
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			why = "is not a regular file"
		case st.Uid != uint32(os.Geteuid()):
			why = fmt.Sprintf("belongs to uid %d", st.Uid)
		case st.Mode&unix.S_IWOTH != 0:
			why = "is writable by everybody"
		case st.Nlink > 1:
			why = "has another hard link"
		}
		if why != "" {
			return nil, errors.Join(&UnsafeError{path, why}, f.Close())
		}
		// A holder removes the file as it releases the lock: a removed file excludes nobody.
		if unix.Lstat(path, &now) == nil && now.Ino == st.Ino && now.Dev == st.Dev {
			return f, nil
		}
		_ = f.Close()
	}
}

// Holder finds the process that has the lock, in this or another container. It returns nil if there
// is none.
//
// It does not query the kernel about the file itself (F_GETLK): a process that closes any
// descriptor of a file loses its locks on it, and this process may be the holder.
func (p Place) Holder() (*wire.Holder, error) {
	return p.find(func() (string, error) {
		text, err := os.ReadFile("/proc/locks")
		return string(text), err
	})
}

// find looks for the holder in the kernel's list of locks. The kernel returns the list in parts,
// and skips an entry when an earlier one disappears between two parts. So find reports no holder
// only after two equal lists.
func (p Place) find(read func() (string, error)) (*wire.Holder, error) {
	const maxLists = 10
	last := ""
	for range maxLists {
		text, err := read()
		if err != nil {
			return nil, fmt.Errorf("find the process that holds the lock: %w", err)
		}
		for line := range strings.Lines(text) {
			if h := p.holderOf(p.marked(line)); h != nil {
				return h, nil
			}
		}
		if text == last {
			break
		}
		last = text
	}
	return nil, nil
}

// holderOf returns the holder with a pid, or nil if the process has ended, is this one, or could
// not trace.
func (p Place) holderOf(pid int) *wire.Holder {
	if pid <= 0 || pid == os.Getpid() {
		return nil
	}
	uid, may, err := mayTrace(pid)
	if err != nil {
		return p.hidden(pid)
	}
	if !may {
		return nil // anyone can lock a byte of a file of their own
	}
	h := wire.Holder{PID: pid, UID: uid, Command: command(pid)}
	if s, err := p.State(h); err == nil {
		h = s.Holder
	}
	return &h
}

// hidden returns a holder that this user's /proc hides (hidepid), or nil if the process has ended.
// Only a state file of root's names it: everyone can write a file of their own.
func (p Place) hidden(pid int) *wire.Holder {
	if !errors.Is(unix.Kill(pid, 0), unix.EPERM) {
		return nil
	}
	s, err := p.State(wire.Holder{PID: pid, UID: 0})
	if err != nil {
		return nil
	}
	return &s.Holder
}

// marked returns the PID of a line of /proc/locks if it is a holder's mark:
//
//	1: POSIX  ADVISORY  WRITE 6925 fe:00:9978038 115922902020719 115922902020719
func (p Place) marked(line string) int {
	f := strings.Fields(line)
	at := strconv.FormatInt(p.Mark, 10)
	if len(f) != 8 || f[1] != "POSIX" || f[3] != "WRITE" || f[6] != at || f[7] != at {
		return 0
	}
	pid, err := strconv.Atoi(f[4])
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}

// mayTrace reports whether a process could be a tracer: it is root or of this process's user, or
// has a capability for it in the initial user namespace.
func mayTrace(pid int) (uid uint32, may bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false, err
	}
	var caps uint64
	uid = ^uint32(0)
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) > 2 && f[0] == "Uid:":
			if n, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				uid = uint32(n) // the effective one
			}
		case len(f) == 2 && f[0] == "CapEff:":
			caps, _ = strconv.ParseUint(f[1], 16, 64)
		}
	}
	if uid == 0 || uid == uint32(os.Geteuid()) {
		return uid, true, nil
	}
	ids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	first := err == nil && strings.Join(strings.Fields(string(ids)), " ") == "0 0 4294967295"
	return uid, first && caps&(1<<unix.CAP_BPF|1<<unix.CAP_SYS_ADMIN) != 0, nil
}

// command returns a process's arguments, joined.
func command(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}
