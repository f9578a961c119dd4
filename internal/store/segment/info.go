package segment

import (
	"errors"
	"fmt"
	"ingero/internal/store/log"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A session's log is cut into segments. Each is a file that can be read alone: it begins with the
// session's frame and everything known by then. The current one is SESSION-NNNNNN.ilog. Once full,
// it is sealed: packed tighter, with an index at its end, under the name SESSION-NNNNNN.iseg. If
// both exist, a crash came between, and the sealed one is complete. From number 1,000,000 on, names
// have more digits. Logs of the first version are SESSION.ilog.
const (
	hotSuffix    = ".ilog"
	SealedSuffix = ".iseg"
	seqDigits    = 6
	idTime       = "20060102T150405" // in a session's ID, before its end
	idEnd        = 8                 // hexadecimal digits
)

// Info is one file of a session's log.
type Info struct {
	Name    string // file name
	Session string // ID
	Seq     int
	Sealed  bool
	Bytes   int64
}

// Name returns the file name of a session's segment.
func Name(session string, seq int, sealed bool) string {
	suffix := hotSuffix
	if sealed {
		suffix = SealedSuffix
	}
	return fmt.Sprintf("%s-%0*d%s", session, seqDigits, seq, suffix)
}

// Parse parses a file name of a database's directory; ok is false if it is no segment.
func Parse(name string) (s Info, ok bool) {
	s.Name = name
	base, hot := strings.CutSuffix(name, hotSuffix)
	if !hot {
		if base, s.Sealed = strings.CutSuffix(name, SealedSuffix); !s.Sealed {
			return s, false
		}
	}
	s.Session = base
	if i := strings.LastIndexByte(base, '-'); i >= 0 && !endsID(base[:i], base[i+1:]) {
		if n, err := strconv.Atoi(base[i+1:]); err == nil && Name(base[:i], n, s.Sealed) == name {
			s.Session, s.Seq = base[:i], n
		}
	}
	return s, s.Session != ""
}

// endsID reports whether digits are the end of a session's ID, and no number: the ID's time precedes
// them. The ID's end precedes a number.
func endsID(before, digits string) bool {
	_, err := time.Parse(idTime, before[max(len(before)-len(idTime), 0):])
	return err == nil && len(digits) == idEnd
}

// List returns the segments of all sessions, each session's in order.
func List(files log.Files) ([]Info, error) {
	all, err := files.List()
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, f := range all {
		if s, ok := Parse(f.Name); ok {
			s.Bytes = f.Bytes
			out = append(out, s)
		}
	}
	slices.SortFunc(out, Compare)
	// If a crash left both forms, keep the sealed one.
	return slices.CompactFunc(out, func(a, b Info) bool { return a.Session == b.Session && a.Seq == b.Seq }), nil
}

// Compare orders segments by session and number, a sealed form before the unsealed one.
func Compare(a, b Info) int {
	if c := strings.Compare(a.Session, b.Session); c != 0 {
		return c
	}
	if a.Seq != b.Seq {
		return a.Seq - b.Seq
	}
	if a.Sealed {
		return -1
	}
	return 1
}

// OfSession returns one session's segments.
func OfSession(files log.Files, session string) ([]Info, error) {
	all, err := List(files)
	return slices.DeleteFunc(all, func(s Info) bool { return s.Session != session }), err
}

// unlisted adds a session's existing segments that are missing from segs: a segment that is sealed
// while a long directory is read may be found under neither name.
func unlisted(files log.Files, session string, segs []Info) ([]Info, error) {
	const most = 64 // in a row; more missing ones are gone
	var out []Info
	next := 0
	if len(segs) > 0 {
		next = max(segs[0].Seq-1, 0) // one is sealed at a time
	}
	look := func(upTo int) error {
		for ; next < upTo; next++ {
			s := Info{Name: Name(session, next, false), Session: session, Seq: next}
			file, err := OpenSegment(files, &s)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			s.Bytes = file.Size()
			if err := file.Close(); err != nil {
				return err
			}
			out = append(out, s)
		}
		return nil
	}
	for _, s := range segs {
		if s.Seq-next <= most {
			if err := look(s.Seq); err != nil {
				return nil, err
			}
		}
		out, next = append(out, s), s.Seq+1
	}
	for had := -1; had < len(out); { // repeat while segments are found
		had = len(out)
		if err := look(next + 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// OpenSegment opens a segment, even if it was sealed since it was found; it then updates Name and
// Sealed. The error wraps [fs.ErrNotExist] if the segment is gone.
func OpenSegment(files log.Files, s *Info) (log.File, error) {
	file, err := files.Open(s.Name)
	if errors.Is(err, fs.ErrNotExist) && !s.Sealed {
		name := Name(s.Session, s.Seq, true)
		if file, err = files.Open(name); err == nil {
			s.Name, s.Sealed = name, true
		}
	}
	return file, err
}
