package proc

import (
	"bytes"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Key identifies a file on this machine, as /proc/PID/maps and the kernel's mmap records show it.
// stat(2) shows another device for files on btrfs and overlayfs. Two overlay mounts of one lower
// file may have different keys, yet share the inode that probes attach to.
type Key struct {
	Dev   uint64 // as unix.Mkdev makes it
	Inode uint64
}

// Mapping is one mapping of a file into a process.
type Mapping struct {
	Start, End uint64 // addresses, [Start, End)
	Offset     uint64 // offset of Start in the file, bytes
	Key        Key
	Path       string // as the kernel shows it to the agent, without " (deleted)"
	Deleted    bool
	Exec       bool
}

const deletedSuffix = " (deleted)"

// Maps lists the file mappings of a process, or only the executable ones. The error is ErrStuck if
// that takes longer than [FS.Patience].
func (f FS) Maps(pid uint32, execOnly bool) ([]Mapping, error) {
	return within(f, pid, func(d pidDir) ([]Mapping, error) {
		return d.mappings(func(m *mapLine) bool { return m.inode != 0 && (m.exec || !execOnly) })
	})
}

// mappings lists the mappings for which want returns true.
func (d pidDir) mappings(want func(*mapLine) bool) (out []Mapping, err error) {
	err = d.eachMapping(func(m *mapLine) {
		if want(m) {
			out = append(out, m.mapping())
		}
	})
	return out, err
}

// mapLine is one line of maps. path aliases the reader's buffer.
type mapLine struct {
	start, end, offset uint64
	major, minor       uint32
	inode              uint64
	exec               bool
	path               []byte
}

func (m *mapLine) key() Key { return Key{Dev: unix.Mkdev(m.major, m.minor), Inode: m.inode} }

func (m *mapLine) mapping() Mapping {
	path, deleted := bytes.CutSuffix(m.path, []byte(deletedSuffix))
	if bytes.Contains(path, []byte(`\012`)) { // the only character that maps escapes
		path = bytes.ReplaceAll(path, []byte(`\012`), []byte("\n"))
	}
	return Mapping{Start: m.start, End: m.end, Offset: m.offset, Key: m.key(),
		Path: string(path), Deleted: deleted, Exec: m.exec}
}

// parseMapLine parses one line of /proc/PID/maps (fs/proc/task_mmu.c):
//
//	start-end perms offset major:minor inode   path
func parseMapLine(b []byte, m *mapLine) bool {
	var ok bool
	if m.start, b, ok = hexNumber(b); !ok || len(b) == 0 || b[0] != '-' {
		return false
	}
	if m.end, b, ok = hexNumber(b[1:]); !ok || len(b) < 6 || b[0] != ' ' || b[5] != ' ' || m.end < m.start {
		return false
	}
	m.exec = b[3] == 'x'
	if m.offset, b, ok = hexNumber(b[6:]); !ok || len(b) == 0 || b[0] != ' ' {
		return false
	}
	major, b, ok := hexNumber(b[1:])
	if !ok || major > 1<<32-1 || len(b) == 0 || b[0] != ':' {
		return false
	}
	minor, b, ok := hexNumber(b[1:])
	if !ok || minor > 1<<32-1 || len(b) == 0 || b[0] != ' ' {
		return false
	}
	m.major, m.minor = uint32(major), uint32(minor)
	if m.inode, b, ok = number(b[1:]); !ok || len(b) > 0 && b[0] != ' ' {
		return false
	}
	m.path = bytes.TrimLeft(b, " ")
	return true
}

// lineMax is the longest line of maps that is read: a path has 4095 bytes, and a newline in it takes
// four. Files deep below have longer ones, which are skipped: no library is loaded by such a path.
const lineMax = 16 << 10

var mapBuffers = sync.Pool{New: func() any { b := make([]byte, 2*lineMax); return &b }}

// eachMapping calls fn for each line of maps. The value is valid until fn returns. It may never
// return: see [ErrStuck].
func (d pidDir) eachMapping(fn func(*mapLine)) error {
	fd, err := openRetry(d.fd, "maps", unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return exitedOr(d.pid, "open "+d.root+"/maps", err)
	}
	defer unix.Close(fd)
	if err := eachMapLine(fd, fn); err != nil {
		return exitedOr(d.pid, "read "+d.root+"/maps", err)
	}
	return nil
}

func eachMapLine(fd int, fn func(*mapLine)) error {
	pooled := mapBuffers.Get().(*[]byte)
	defer mapBuffers.Put(pooled)
	buf, have := *pooled, 0
	var m mapLine
	long := false // the rest of a line that is too long comes
	for {
		n, err := unix.Read(fd, buf[have:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		have += n
		used := 0
		for {
			i := bytes.IndexByte(buf[used:have], '\n')
			if i < 0 {
				break
			}
			switch line := buf[used : used+i]; {
			case long:
				long = false
			case !parseMapLine(line, &m):
				return fmt.Errorf("%w: %.80q", errFormat, line)
			default:
				fn(&m)
			}
			used += i + 1
		}
		have = copy(buf, buf[used:have])
		if n == 0 {
			return nil
		}
		if have == len(buf) {
			long, have = true, 0
		}
	}
}
