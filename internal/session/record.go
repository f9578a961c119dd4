package session

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// RawTape configures the recording of a raw tape.
type RawTape struct {
	To io.Writer // left open
	// Clean replaces texts, in the tape and in the session: names of processes ("Comm"), and all
	// others by the name of their field ("Exe", "Cgroup", "Path"). It must be safe for concurrent
	// use. Host sums by peer address or file name are left out. nil: nothing is replaced.
	Clean func(field, text string) string
}

// recorder records the raw tape of a [Live].
type recorder struct {
	kernel
	out     *tape.Writer
	clean   func(field, text string) string
	time    Clock
	began   bool
	scratch []byte
}

// newRecorder returns a recorder in front of the kernel.
func newRecorder(k kernel, o *LiveOptions, c decode.Clock) (*recorder, error) {
	h := tape.Header{ABI: decode.ABI, Shapes: decode.Shapes(), PID: uint32(os.Getpid()), Clock: c.Offset,
		Stacks: policies[o.Probes.Stacks], PIDs: o.Select.PIDs}
	for _, row := range k.Rows() {
		h.Rows = append(h.Rows, uint16(row.Op))
	}
	out, err := tape.Create(o.RawTape.To, &h)
	if err != nil {
		return nil, err
	}
	return &recorder{kernel: k, out: out, clean: o.RawTape.Clean}, nil
}

func (*recorder) plays() bool    { return false }
func (r *recorder) close() error { return r.out.Close() }

func (r *recorder) clock(c Clock) Clock {
	r.time = c
	return &recordedClock{c, r}
}

// recordedClock records the first time that a session reads: its start.
type recordedClock struct {
	Clock
	r *recorder
}

func (c *recordedClock) Now() time.Time {
	now := c.Clock.Now()
	if !c.r.began {
		c.r.began = true
		c.r.out.Frame(tape.Began, number64(uint64(now.UnixNano())))
	}
	return now
}

func (r *recorder) begin(k tape.Kind, at time.Time) error {
	if at.IsZero() && r.time != nil {
		at = r.time.Now()
	}
	r.out.Frame(k, number64(uint64(at.UnixNano())))
	return nil
}

func (r *recorder) answer(k tape.Kind, v any, read func()) bool {
	read()
	text, err := json.Marshal(v)
	if err == nil && r.clean != nil {
		text, err = r.cleaned(k, text, v)
	}
	if err != nil {
		r.out.Fail(fmt.Errorf("%v: %w", k, err))
		return true
	}
	r.out.Frame(k, text)
	return true
}

// cleaned replaces the texts of an answer, also in v.
func (r *recorder) cleaned(k tape.Kind, text []byte, v any) ([]byte, error) {
	var x any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&x); err != nil {
		return nil, err
	}
	field := map[tape.Kind]string{tape.Name: "Comm", tape.Device: "Object", tape.Cgroup: "Cgroup"}[k]
	text, err := json.Marshal(cleanValue(field, x, r.clean))
	if err != nil {
		return nil, err
	}
	reflect.ValueOf(v).Elem().SetZero()
	return text, json.Unmarshal(text, v)
}

func cleanValue(field string, x any, clean func(field, text string) string) any {
	switch x := x.(type) {
	case string:
		if x != "" {
			return clean(field, x)
		}
	case []any:
		for i := range x {
			x[i] = cleanValue(field, x[i], clean)
		}
	case map[string]any:
		for name := range x {
			x[name] = cleanValue(name, x[name], clean)
		}
	}
	return x
}

func (r *recorder) rename(comm string) string { return r.clean("Comm", comm) }

func (r *recorder) copied(record []byte) []byte {
	record = bytes.Clone(record)
	if r.clean != nil {
		decode.RenameRecord(record, r.rename)
	}
	return record
}

func (r *recorder) lives(records [][]byte, _ func([]byte)) {
	for _, record := range records {
		r.out.Frame(tape.Life, record)
	}
}

func (r *recorder) Drain(limit int, take func(record []byte)) int {
	return r.kernel.Drain(limit, func(record []byte) {
		kept := record
		if r.clean != nil {
			r.scratch = append(r.scratch[:0], record...)
			record = r.scratch
			decode.RenameRecord(record, r.rename)
			kept = decode.WithoutPaths(record)
		}
		r.out.Frame(tape.Record, kept)
		take(record)
	})
}

func (r *recorder) Waiting() (read, made uint64) {
	read, made = r.kernel.Waiting()
	r.out.Frame(tape.Waiting, number64(read), number64(made))
	return read, made
}

func (r *recorder) Counts(take func(*probes.CountsRow)) error {
	return r.kernel.Counts(func(c *probes.CountsRow) {
		r.out.Frame(tape.Count, number32(c.PID), number32(uint32(c.Row)), decode.Bytes(&c.IngeroCounts))
		take(c)
	})
}

func (r *recorder) Threads(take func(tid uint32, s *probes.ThreadState, now uint64)) error {
	return r.kernel.Threads(func(tid uint32, s *probes.ThreadState, now uint64) {
		r.out.Frame(tape.Thread, number32(tid), number64(now), decode.Bytes(s))
		take(tid, s, now)
	})
}

func (r *recorder) Drops() (drops []tick.Drop, err error) {
	r.answer(tape.Drops, &drops, func() { drops, err = r.kernel.Drops() })
	return drops, err
}

func (r *recorder) HostSums(take func(k probes.HostKey, s *probes.HostSum)) error {
	return r.kernel.HostSums(func(k probes.HostKey, s *probes.HostSum) {
		if r.clean != nil && hasText(&k) {
			return
		}
		r.hostSum(tape.HostSum, &k, s)
		take(k, s)
	})
}

// hasText reports whether a sum's key has a peer address or a file name, which Clean cannot replace.
func hasText(k *probes.HostKey) bool {
	x := decode.HostKey(k)
	of := x.Kind.Row().Object
	return (of == "peer" || of == "file") && x.Object != ""
}

func (r *recorder) hostSum(kind tape.Kind, k *probes.HostKey, s *probes.HostSum) {
	if r.clean != nil {
		decode.RenameComm(&s.Comm, r.rename)
	}
	r.out.Frame(kind, decode.Bytes(k), decode.Bytes(s))
}

func (r *recorder) ForgetHost(k probes.HostKey) (probes.HostSum, error) {
	s, err := r.kernel.ForgetHost(k)
	r.hostSum(tape.HostLast, &k, &s)
	return s, err
}

func (r *recorder) HostReports() (reports []tick.Report) {
	r.answer(tape.HostReports, &reports, func() { reports = r.kernel.HostReports() })
	return reports
}

// pageCount is the number of pages of an order that a process has allocated.
type pageCount struct {
	PID, Order uint32
	N          uint64
}

func (r *recorder) Pages(take func(pid, order uint32, n uint64)) (err error) {
	var all []pageCount
	r.answer(tape.Pages, &all, func() {
		err = r.kernel.Pages(func(pid, order uint32, n uint64) { all = append(all, pageCount{pid, order, n}) })
	})
	for _, p := range all {
		take(p.PID, p.Order, p.N)
	}
	return err
}

func number32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func number64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
