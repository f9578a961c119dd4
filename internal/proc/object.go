package proc

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"
)

// Object is an open library, exactly the file that a process maps.
type Object struct {
	File *os.File
	// Path leads to File for as long as it is open, even when the file was
	// deleted or the process has ended: what to give the kernel for a probe.
	Path string
	// From is where the file was found: /proc/PID/map_files/..., or its path
	// below /proc/PID/root, or that in the agent's own root.
	From string
	Name string // the path as maps shows it
	Key  Key
	Size int64 // bytes
	// BuildID is the linker's, in hexadecimal; empty when it left none. With
	// Size it tells whether two files have the same content.
	BuildID string
}

// Close closes File. Path is of no use afterwards.
func (o *Object) Close() error { return o.File.Close() }

var (
	errNotRegular = errors.New("not a regular file")
	errOtherFile  = errors.New("another file than the one that is mapped")
)

// OpenMapped opens the file behind a mapping of an executable part of a library.
// It goes through /proc/PID/map_files, which needs CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE and works for deleted files, or else by the path, and
// accepts no file but the one that is mapped. Devices, pipes and files that are
// no plausible 64-bit ELF are refused.
func (f FS) OpenMapped(pid uint32, m Mapping) (*Object, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	o, err := d.openMapFile(m)
	if err != nil {
		var byPath error
		if o, byPath = d.openPath(m); byPath != nil {
			if _, gone := d.read("stat", nil, 1); gone != nil {
				return nil, gone
			}
			return nil, fmt.Errorf("open %s of pid %d: %w", m.Path, pid, errors.Join(err, byPath))
		}
	}
	if err := o.describe(); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s of pid %d: %w", m.Path, pid, err), o.Close())
	}
	return o, nil
}

// OpenLibrary opens a library by its path, as --cuda-lib names it.
func OpenLibrary(path string) (*Object, error) {
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	o, err := reopen(fd, path, path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := o.describe(); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), o.Close())
	}
	return o, nil
}

// openMapFile opens the file through map_files. A mapping may have been split or
// joined since it was read; then any other one of the same file will do.
func (d pidDir) openMapFile(m Mapping) (*Object, error) {
	o, err := d.openRange(m.Start, m.End, m)
	if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, errOtherFile) {
		return o, err
	}
	var again []Mapping
	if err := d.eachMapping(func(l *mapLine) {
		if l.inode != 0 && l.key() == m.Key {
			again = append(again, l.mapping())
		}
	}); err != nil {
		return nil, err
	}
	for _, a := range again {
		if o, err = d.openRange(a.Start, a.End, m); err == nil {
			return o, nil
		}
	}
	return nil, err
}

func (d pidDir) openRange(start, end uint64, m Mapping) (*Object, error) {
	name := fmt.Sprintf("map_files/%x-%x", start, end)
	fd, err := openRetry(d.fd, name, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", d.root, name, err)
	}
	return reopenAs(fd, d.root+"/"+name, m)
}

// openPath opens the file by the path that maps shows: below the root of the
// process, or below the agent's own, which is what the kernel shows for a
// process in a chroot.
func (d pidDir) openPath(m Mapping) (*Object, error) {
	if m.Deleted || !strings.HasPrefix(m.Path, "/") {
		return nil, errors.New("it has no path")
	}
	root, err := openRetry(d.fd, "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s/root: %w", d.root, err)
	}
	defer unix.Close(root)
	var errs []error
	for _, at := range []struct {
		dir  int
		from string
	}{{root, d.root + "/root" + m.Path}, {unix.AT_FDCWD, m.Path}} {
		fd, err := openBeneath(at.dir, m.Path)
		if err == nil {
			var o *Object
			if o, err = reopenAs(fd, at.from, m); err == nil {
				return o, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", at.from, err))
	}
	return nil, errors.Join(errs...)
}

// openBeneath opens path with dir as the root, so that a link in another
// container does not lead into this one's files. Systems whose seccomp filter
// does not know openat2 get the plain call: the caller compares the file anyway.
func openBeneath(dir int, path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if dir != unix.AT_FDCWD {
		how.Resolve |= unix.RESOLVE_IN_ROOT
	}
	for range 16 { // EAGAIN: a rename raced with the walk
		fd, err := unix.Openat2(dir, path, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS, unix.EPERM:
			if dir != unix.AT_FDCWD {
				path = strings.TrimLeft(path, "/")
			}
			return openRetry(dir, path, unix.O_PATH|unix.O_CLOEXEC)
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

func reopenAs(fd int, from string, m Mapping) (*Object, error) {
	o, err := reopen(fd, from, m.Path)
	if err != nil {
		return nil, err
	}
	if o.Key != m.Key {
		return nil, errors.Join(errOtherFile, o.Close())
	}
	return o, nil
}

// reopen turns an O_PATH descriptor, which it closes, into a readable file. The
// type is looked at in between: to open a device or a pipe can block or do harm.
func reopen(fd int, from, name string) (*Object, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNotRegular
	}
	fd, err := openRetry(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	o := &Object{File: os.NewFile(uintptr(fd), from), Path: fmt.Sprintf("/proc/self/fd/%d", fd),
		From: from, Name: name, Size: st.Size}
	if o.Key, err = keyOf(fd, &st); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Object) describe() (err error) {
	o.BuildID, err = checkELF(o.File)
	return err
}

// keyOf finds the key of an open file by mapping a page of it and looking how
// the kernel shows that. The page is never touched, so it need not exist.
func keyOf(fd int, st *unix.Stat_t) (Key, error) {
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil { // hugetlbfs wants larger pages: a plain file system, stat will do
		return Key{Dev: st.Dev, Inode: st.Ino}, nil
	}
	defer unix.Munmap(page)
	at := uint64(reflect.ValueOf(page).Pointer())
	self, err := openRetry(unix.AT_FDCWD, "/proc/self/maps", unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return Key{}, err
	}
	defer unix.Close(self)
	var key Key
	if err := eachMapLine(self, func(m *mapLine) {
		if m.start <= at && at < m.end {
			key = m.key()
		}
	}); err != nil {
		return Key{}, fmt.Errorf("/proc/self/maps: %w", err)
	}
	if key == (Key{}) {
		return Key{}, errors.New("/proc/self/maps shows no mapping of the file")
	}
	return key, nil
}
