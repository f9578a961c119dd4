package proc

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/elffile"
)

var (
	errNotRegular = errors.New("not a regular file")
	errOtherFile  = errors.New("not the mapped file")
)

// OpenMapped opens the file behind a mapping. While the file is open, path leads to it, even if it
// was deleted or the process has ended: pass path to the kernel for a probe. The file's Name is the
// place where it was found: /proc/PID/map_files, which needs CAP_SYS_ADMIN or
// CAP_CHECKPOINT_RESTORE and has deleted files too, or else its path in /proc/PID/root. OpenMapped
// accepts only the mapped file itself, and only a regular file that elffile.Open accepts.
func (f FS) OpenMapped(pid uint32, m Mapping) (file *os.File, path string, err error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, "", err
	}
	defer d.close()
	o, err := f.openMapFile(d, m)
	if err != nil {
		var byPath error
		if o, byPath = d.openPath(m); byPath != nil {
			if gone := d.alive(); gone != nil {
				return nil, "", gone
			}
			return nil, "", fmt.Errorf("open %s of pid %d: %w", m.Path, pid, errors.Join(err, byPath))
		}
	}
	if _, err := elffile.Open(o.file); err != nil {
		return nil, "", errors.Join(fmt.Errorf("read %s of pid %d: %w", m.Path, pid, err), o.file.Close())
	}
	return o.file, fmt.Sprintf("/proc/self/fd/%d", o.file.Fd()), nil
}

// openRegular opens a file in the agent's own root.
func openRegular(path string) (object, error) {
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return object{}, fmt.Errorf("open %s: %w", path, err)
	}
	o, err := reopen(fd, path)
	if err != nil {
		return object{}, fmt.Errorf("open %s: %w", path, err)
	}
	return o, nil
}

// object is an open regular file.
type object struct {
	file *os.File
	key  Key
}

// openMapFile opens the file through map_files. If the mapping has been split or merged since it
// was read, another mapping of the same file serves.
func (f FS) openMapFile(d pidDir, m Mapping) (object, error) {
	o, err := d.openRange(m.Start, m.End, m)
	if err == nil || !errors.Is(err, unix.ENOENT) && !errors.Is(err, errOtherFile) {
		return o, err
	}
	again, unread := within(f, d.pid, func(d pidDir) ([]Mapping, error) {
		return d.mappings(func(l *mapLine) bool { return l.inode != 0 && l.key() == m.Key })
	})
	if unread != nil {
		return object{}, unread
	}
	for _, a := range again {
		if o, err = d.openRange(a.Start, a.End, m); err == nil {
			return o, nil
		}
	}
	return object{}, err
}

func (d pidDir) openRange(start, end uint64, m Mapping) (object, error) {
	name := fmt.Sprintf("map_files/%x-%x", start, end)
	fd, err := openRetry(d.fd, name, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return object{}, fmt.Errorf("%s/%s: %w", d.root, name, err)
	}
	return reopenAs(fd, d.root+"/"+name, m)
}

// openPath opens the file by its path in maps: below the root of the process, or below the agent's
// own, which is what the kernel shows for a process in a chroot.
func (d pidDir) openPath(m Mapping) (object, error) {
	if m.Deleted || !strings.HasPrefix(m.Path, "/") {
		return object{}, errors.New("it has no path")
	}
	root, err := openRetry(d.fd, "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return object{}, fmt.Errorf("%s/root: %w", d.root, err)
	}
	defer unix.Close(root)
	var errs []error
	for _, at := range []struct {
		dir  int
		from string
	}{{root, d.root + "/root" + m.Path}, {unix.AT_FDCWD, m.Path}} {
		fd, err := openBeneath(at.dir, m.Path)
		if err == nil {
			var o object
			if o, err = reopenAs(fd, at.from, m); err == nil {
				return o, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", at.from, err))
	}
	return object{}, errors.Join(errs...)
}

// openBeneath opens path with dir as the root, so that a link in a container does not lead outside.
// If a seccomp filter does not know openat2, it uses openat; the caller compares the file anyway.
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

// reopenAs is reopen for a file that must be the one of a mapping. On most file systems fstat
// identifies it. That avoids keyOf, which reads all of the agent's own maps.
func reopenAs(fd int, from string, m Mapping) (object, error) {
	file, err := reopenFile(fd, from)
	if err != nil {
		return object{}, err
	}
	o := object{file, m.Key}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err == nil && m.Key == (Key{Dev: st.Dev, Inode: st.Ino}) {
		return o, nil
	}
	if o.key, err = keyOf(int(file.Fd())); err != nil {
		return object{}, errors.Join(err, file.Close())
	}
	if o.key != m.Key {
		return object{}, errors.Join(errOtherFile, file.Close())
	}
	return o, nil
}

// reopen converts an O_PATH descriptor, which it closes, to a readable file and its key.
func reopen(fd int, from string) (object, error) {
	file, err := reopenFile(fd, from)
	if err != nil {
		return object{}, err
	}
	o := object{file: file}
	if o.key, err = keyOf(int(file.Fd())); err != nil {
		return object{}, errors.Join(err, o.file.Close())
	}
	return o, nil
}

// reopenFile converts an O_PATH descriptor, which it closes, to a readable file. It checks the type
// before it opens the file: opening a device or a pipe can block or have side effects.
func reopenFile(fd int, from string) (*os.File, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNotRegular
	}
	fd, err := openRetry(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), from), nil
}

// Owner returns the user to whom an open file belongs. Users other than root can forge the content of their
// files, also the build id: caches by build id share nothing between owners.
func Owner(file *os.File) (uid uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return st.Uid, nil
}

// keyOf finds the key of an open file: it maps a page of it, and reads how the kernel shows the
// mapping. It never touches the page, so the page need not exist.
func keyOf(fd int) (Key, error) {
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil { // hugetlbfs requires larger pages, but stat has its key
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		return Key{Dev: st.Dev, Inode: st.Ino}, err
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
