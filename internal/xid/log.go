package xid

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// LogPath is the kernel's log.
const LogPath = "/dev/kmsg"

// maxRecord exceeds the kernel's maximum size of a record (CONSOLE_EXT_LOG_MAX), in bytes.
const maxRecord = 16 << 10

// Log reads faults from the kernel's log. Next is not safe for concurrent use; the other methods
// are.
type Log struct {
	f    *os.File
	conn rawReader
	buf  []byte
	now  func() int64 // CLOCK_MONOTONIC ns
	clock
	next    uint64 // number of the next record
	begun   bool
	pending *pending // the fault in the previous record
	parts   []string // the lines so far of a multi-record message of a lost GPU
	live    bool     // the existing records have been read

	closed     atomic.Bool
	lost       atomic.Uint64
	suppressed atomic.Uint64
	unread     atomic.Uint64
}

type rawReader interface {
	Read(func(fd uintptr) (done bool)) error
}

// pending is a fault that the next record may extend.
type pending struct {
	tick.Xid
	caller string
}

// OpenLog opens the kernel's log, at its end or with its existing records. wall is Unix time less
// CLOCK_MONOTONIC, in ns. path is [LogPath] except in tests.
func OpenLog(path string, history bool, wall int64) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if !history {
		if _, err := f.Seek(0, unix.SEEK_END); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Log{f: f, conn: conn, buf: make([]byte, maxRecord), clock: clock{wall: wall}, live: !history, now: func() int64 {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
		return t.Nano()
	}}, nil
}

// Close ends Next. It is idempotent.
func (l *Log) Close() error {
	l.closed.Store(true)
	if err := l.f.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Lost returns the number of records that were overwritten before they were read.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Suppressed returns the number of messages that the driver's rate limit suppressed, from the log.
func (l *Log) Suppressed() uint64 { return l.suppressed.Load() }

// Unread returns the number of lines that begin as faults do but could not be parsed.
func (l *Log) Unread() uint64 { return l.unread.Load() }

// Next appends the faults in all unread records of the log. Without wait it returns at once.
// Otherwise it waits for a record, which need not be a fault. After Close it returns
// [os.ErrClosed].
func (l *Log) Next(dst []tick.Xid, wait bool) ([]tick.Xid, error) {
	var failed error
	from, records := len(dst), 0
	err := l.conn.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Read(int(fd), l.buf)
			switch {
			case err == nil && n > 0:
				records++
				dst = l.record(dst, l.buf[:n])
			case errors.Is(err, unix.EPIPE): // records were overwritten: their numbers tell how many
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				dst = l.flush(dst)
				if records > 0 {
					l.settle(dst[from:])
				}
				l.live = true
				return !wait || records > 0
			default:
				if failed = err; n == 0 && err == nil { // a regular file has an end
					dst, failed = l.flush(dst), os.ErrClosed
				}
				return true
			}
		}
	})
	if err = errors.Join(failed, err); err != nil && (l.closed.Load() || errors.Is(err, os.ErrClosed)) {
		return dst, os.ErrClosed
	}
	if err != nil {
		return dst, fmt.Errorf("read the kernel log: %w", err)
	}
	return dst, nil
}

// record parses one record (Documentation/ABI/testing/dev-kmsg):
//
//	PRIORITY,NUMBER,MICROSECONDS,FLAGS[,caller=...];TEXT
//	 KEY=VALUE
func (l *Log) record(dst []tick.Xid, b []byte) []tick.Xid {
	head, body, ok := bytes.Cut(b, []byte{';'})
	fields := strings.Split(string(head), ",")
	if !ok || len(fields) < 4 {
		return dst
	}
	prio, err1 := strconv.ParseUint(fields[0], 10, 32)
	seq, err2 := strconv.ParseUint(fields[1], 10, 64)
	us, err3 := strconv.ParseInt(fields[2], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return dst
	}
	if l.begun && seq > l.next {
		l.lost.Add(seq - l.next)
		dst = l.flush(dst)
	}
	l.begun, l.next, l.last = true, seq+1, us*1000
	caller := ""
	for _, f := range fields[4:] {
		if c, ok := strings.CutPrefix(f, "caller="); ok {
			caller = c
		}
	}
	text, _, _ := bytes.Cut(body, []byte{'\n'})
	if strings.Contains(fields[3], "c") && l.pending != nil && l.pending.caller == caller {
		l.pending.SetMessage(l.pending.Msg + " " + unescape(text))
		return dst
	}
	dst = l.flush(dst)
	if !bytes.Contains(text, []byte("Xid")) && !bytes.Contains(text, []byte("NVRM: ")) {
		l.suppressed.Add(suppressedIn(string(text)))
		return dst
	}
	for _, x := range l.read(unescape(text)) {
		dst = l.flush(dst)
		// The kernel's own messages have facility 0, which no program can use.
		x.Via, x.Injected, x.Time = tick.ViaKernelLog, prio>>3 != 0, l.unix(l.last)
		l.pending = &pending{x, caller}
	}
	return dst
}

// mostParts is the maximum number of records of one message.
const mostParts = 4

// read returns the faults in a message. A message may have several lines, or be one of several
// records that report a lost GPU.
func (l *Log) read(text string) (out []tick.Xid) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimLeft(line, " ")
		if x, ok := Parse(line); ok {
			l.parts = nil
			out = append(out, x)
			continue
		}
		switch {
		case looksLike(line):
			l.unread.Add(1)
			l.parts = nil
		case strings.HasPrefix(line, "NVRM: The NVIDIA GPU "):
			l.parts = []string{line}
		case len(l.parts) > 0 && len(l.parts) < mostParts:
			l.parts = append(l.parts, line)
			if x, ok := Parse(strings.Join(l.parts, "\n")); ok {
				l.parts = nil
				out = append(out, x)
			}
		default:
			l.parts = nil
		}
	}
	return out
}

// flush releases the fault that can no longer be extended.
func (l *Log) flush(dst []tick.Xid) []tick.Xid {
	if l.pending != nil {
		dst, l.pending = append(dst, l.pending.Xid), nil
	}
	return dst
}

// settle corrects the times of the faults just read, from the present clock.
func (l *Log) settle(xs []tick.Xid) {
	if !l.live {
		return
	}
	if shift := l.learn(l.now()); shift != 0 {
		for i := range xs {
			xs[i].Time += shift
		}
	}
}

// clock converts log times to Unix time. The log's clock is not disciplined: it equals
// CLOCK_MONOTONIC at boot, and is off by seconds after weeks.
type clock struct {
	wall    int64 // Unix time less CLOCK_MONOTONIC
	ahead   int64 // CLOCK_MONOTONIC less the log's clock, as far as known
	last    int64 // log time of the last record
	known   bool
	learned int64 // CLOCK_MONOTONIC time of the last correction
}

// worstDrift bounds the clocks' relative drift, to 1 in worstDrift.
const worstDrift = 1000

func (c *clock) unix(log int64) int64 { return log + c.ahead + c.wall }

// learn corrects the difference of the clocks when a record has just been read. The difference is
// right, or too large if the reader lagged, so an increase is limited to the possible drift. It
// returns what to add to the times read before.
func (c *clock) learn(now int64) (shift int64) {
	was, ahead := c.ahead, now-c.last
	if c.known {
		ahead = min(ahead, c.ahead+(now-c.learned)/worstDrift)
	}
	c.ahead, c.known, c.learned = ahead, true, now
	return ahead - was
}

// suppressedIn returns the number in a line like
//
//	nvidia_isr: 17 callbacks suppressed
func suppressedIn(line string) uint64 {
	rest, ok := strings.CutSuffix(line, " callbacks suppressed")
	if !ok {
		return 0
	}
	function, number, ok := strings.Cut(rest, ": ")
	if !ok || !strings.HasPrefix(function, "nv") && !strings.HasPrefix(function, "os_") && !strings.HasPrefix(function, "rm_") {
		return 0
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// unescape undoes \xNN, the log's escape for unprintable bytes.
func unescape(text []byte) string {
	if !bytes.Contains(text, []byte(`\x`)) {
		return string(text)
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) && text[i+1] == 'x' {
			if v, err := strconv.ParseUint(string(text[i+2:i+4]), 16, 8); err == nil {
				out = append(out, byte(v))
				i += 3
				continue
			}
		}
		out = append(out, text[i])
	}
	return strings.ToValidUTF8(string(out), "?")
}
