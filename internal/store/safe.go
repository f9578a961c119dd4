package store

import (
	"errors"
	"fmt"
	"ingero/internal/store/log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owner is the user for whom files and directories are created under sudo.
type Owner struct{ UID, GID uint32 }

// UnsafeError means that root must not write to a path, since another user could put something else
// there. Do is the command that makes it safe; it can be empty.
type UnsafeError struct{ Path, Why, Do string }

func (e *UnsafeError) Error() string { return fmt.Sprintf("%s %s", e.Path, e.Why) }

// LockedError means that another process records to the database.
type LockedError struct {
	Path string
	PID  int // 0: unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("another process records to %s", e.Path)
	}
	return fmt.Sprintf("process %d records to %s", e.PID, e.Path)
}

// places opens directories and files for an owner. If this process is root, it trusts nothing that
// another user could have put there.
type places struct {
	root  bool
	owner *Owner
}

func placesOf(owner *Owner) places { return places{root: os.Geteuid() == 0, owner: owner} }

const (
	dirMode   = 0o700
	fileMode  = 0o600
	dirShare  = 0o050 // added if the group may read
	fileShare = 0o040
	linkLimit = 40
)

// shared reports whether new files in a directory are readable by its group. The directory's owner
// requests that with the set-group-ID bit, which also makes them inherit the group.
func shared(dir int) bool {
	var s unix.Stat_t
	return unix.Fstat(dir, &s) == nil && s.Mode&unix.S_ISGID != 0
}

// dir opens a directory, given by an absolute path, and creates missing ones. Root follows only
// root's symbolic links, and only directories of root and the owner. Sticky directories, like /tmp,
// may be world-writable, except the last.
func (p places) dir(path string) (*os.File, error) {
	left := pathElements(path)
	if len(left) == 0 {
		return nil, &os.PathError{Op: "use", Path: path, Err: unix.EISDIR}
	}
	at, done := -1, "/"
	defer func() { _ = unix.Close(at) }()
	for links := 0; len(left) > 0; {
		if done == "/" {
			root, err := unix.Open("/", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, pathError("open", "/", err)
			}
			_ = unix.Close(at)
			at = root
		}
		here := filepath.Join(done, left[0])
		if target, err := readLink(at, left[0]); err == nil { // continue at its target
			if err := p.link(at, left[0], here); err != nil {
				return nil, err
			}
			if links++; links > linkLimit {
				return nil, pathError("open", path, unix.ELOOP)
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(done, target)
			}
			left, done = append(pathElements(target), left[1:]...), "/"
			continue
		}
		next, err := p.step(at, left[0], here)
		if err != nil {
			return nil, err
		}
		_ = unix.Close(at)
		at, done, left = next, here, left[1:]
		if err := p.trust(at, here, len(left) == 0); err != nil {
			return nil, err
		}
	}
	fd, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, pathError("dup", path, err)
	}
	return os.NewFile(uintptr(fd), done), nil
}

func pathElements(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == '/' })
}

// step opens the directory name below at, and creates it if missing.
func (p places) step(at int, name, path string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags|unix.O_PATH, 0)
	if !errors.Is(err, unix.ENOENT) {
		return fd, pathError("open", path, err)
	}
	mode := uint32(dirMode)
	if shared(at) {
		mode |= dirShare
	}
	if err := unix.Mkdirat(at, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, pathError("make", path, err)
	}
	fd, err = unix.Openat(at, name, flags, 0)
	if err != nil {
		return -1, pathError("open", path, err)
	}
	if err := p.give(fd); err != nil {
		_ = unix.Close(fd)
		return -1, pathError("chown", path, err)
	}
	return fd, nil
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

// give makes the owner the owner of an open file.
func (p places) give(fd int) error {
	if !p.root || p.owner == nil {
		return nil
	}
	return unix.Fchown(fd, int(p.owner.UID), int(p.owner.GID))
}

// ours reports whether root may trust files of uid.
func (p places) ours(uid uint32) bool {
	return uid == 0 || p.owner != nil && uid == p.owner.UID
}

func (p places) link(at int, name, path string) error {
	if !p.root {
		return nil
	}
	var s unix.Stat_t
	if err := unix.Fstatat(at, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return pathError("stat", path, err)
	}
	if s.Uid != 0 {
		return &UnsafeError{Path: path, Why: "is a symbolic link of user " + strconv.Itoa(int(s.Uid)) + ", who could redirect it"}
	}
	return nil
}

func (p places) trust(fd int, path string, last bool) error {
	if !p.root {
		return nil
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return pathError("stat", path, err)
	}
	switch {
	case s.Mode&unix.S_IWOTH != 0 && (last || s.Mode&unix.S_ISVTX == 0):
		return &UnsafeError{Path: path, Why: "is a directory that everybody can write to", Do: "sudo chmod o-w " + path}
	case !p.ours(s.Uid):
		return &UnsafeError{Path: path, Why: "belongs to user " + strconv.Itoa(int(s.Uid)) + ", who could replace its files"}
	}
	return nil
}

// open opens a regular file in dir for reading and writing. It creates the file if it is missing,
// or must be new (O_EXCL in flags).
func (p places) open(dir *os.File, name string, flags int) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	const always = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	mode := uint32(fileMode)
	if shared(int(dir.Fd())) {
		mode |= fileShare
	}
	// Only the creator sets the owner, so try to create it first.
	fd, err := unix.Openat(int(dir.Fd()), name, always|unix.O_CREAT|unix.O_EXCL|flags, mode)
	made := err == nil
	if errors.Is(err, unix.EEXIST) && flags&unix.O_EXCL == 0 {
		fd, err = unix.Openat(int(dir.Fd()), name, always|flags, 0)
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, &UnsafeError{Path: path, Why: "is a symbolic link"}
	}
	if err != nil {
		return nil, pathError("open", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if made {
		err = pathError("chown", path, p.give(fd))
	} else {
		err = p.plain(fd, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// existing opens a file in dir for reading.
func (p places) existing(dir *os.File, name string) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := p.plain(fd, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p places) plain(fd int, path string) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return pathError("stat", path, err)
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return &UnsafeError{Path: path, Why: "is not a regular file"}
	case s.Mode&unix.S_IWOTH != 0:
		return &UnsafeError{Path: path, Why: "is a file that everybody can write to", Do: "chmod o-w " + path}
	case !p.root:
		return nil
	case !p.ours(s.Uid):
		return &UnsafeError{Path: path, Why: "belongs to user " + strconv.Itoa(int(s.Uid))}
	case s.Nlink > 1:
		return &UnsafeError{Path: path, Why: "has another hard link"}
	}
	return nil
}

// OpenFile opens a file beside a database for reading and writing, with the same precautions: it
// creates the file and missing directories for the owner.
func OpenFile(path string, owner *Owner) (*os.File, error) {
	p := placesOf(owner)
	dir, err := p.dir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f, err := p.open(dir, filepath.Base(path), 0)
	return f, errors.Join(err, dir.Close())
}

func readLink(at int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(at, name, buf[:])
	return string(buf[:max(n, 0)]), err
}

// lock takes the lock of the database at path for this process. The open file holds the lock and
// releases it when closed.
func (p places) lock(dir *os.File, path string) (*os.File, error) {
	f, err := p.open(dir, lockName, 0)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		held := &LockedError{Path: path}
		var text [20]byte
		n, _ := f.ReadAt(text[:], 0)
		held.PID, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
		return nil, errors.Join(held, f.Close())
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// unlock releases lock's lock. Closing the file is not enough: a child that another thread has just
// forked has it open too, until the child calls exec.
func unlock(f *os.File) error {
	whole := unix.Flock_t{Type: unix.F_UNLCK}
	return pathError("unlock", f.Name(), unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole))
}

const lockName = "writer"

// Recording reports whether a process is recording to the database at path.
func Recording(path string) bool {
	f, err := log.OpenPlain(filepath.Join(LogDir(path), lockName))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	whole := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &whole); err != nil {
		return false
	}
	return whole.Type != unix.F_UNLCK
}

// LogDir returns the directory of the logs of the database at path.
func LogDir(path string) string { return path + ".d" }
