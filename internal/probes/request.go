package probes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/internal/tick"
)

// Requests measures HTTP/1.1 requests to server processes on this machine, from the kernel's
// tracepoints of sockets. It needs Linux 6.3. It is for one goroutine.
type Requests struct {
	objects  bpf.RequestObjects
	links    []link.Link
	reader   *ringbuf.Reader
	record   ringbuf.Record
	watched  map[uint32]bool
	toWall   func(mono uint64) int64
	detached bool
}

// The size of a response without chunks is not known: it counts as ended when nothing was sent for
// quiet. A stream may pause for longer: before its first token if the server has much to do, and later
// if its cache is full. Its end is seen, so it only counts as ended after paused.
const (
	quiet  = 10 * time.Second
	paused = 10 * time.Minute
)

// OpenRequests attaches to the tracepoints. It measures nothing before Watch. toWall converts
// CLOCK_MONOTONIC into Unix time, in ns.
func OpenRequests(toWall func(mono uint64) int64) (*Requests, error) {
	return openRequests(toWall, firstEvent)
}

// firstEvent is the time after the first piece of a body in which further pieces are the same event.
const firstEvent = 500 * time.Microsecond

func openRequests(toWall func(mono uint64) int64, first time.Duration) (_ *Requests, err error) {
	r := &Requests{toWall: toWall, watched: map[uint32]bool{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("measure requests (Linux 6.3): %w", errors.Join(explain(err), r.Close()))
		}
	}()
	spec, err := bpf.LoadRequest()
	if err != nil {
		return nil, err
	}
	if err := setRequestConstants(spec, first); err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return nil, err
	}
	for _, p := range []*ebpf.Program{r.objects.OnRequest, r.objects.OnResponse, r.objects.OnClose} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return nil, err
		}
		r.links = append(r.links, l)
	}
	r.reader, err = ringbuf.NewReader(r.objects.Requests)
	return r, err
}

// setRequestConstants sets this architecture's numbers of system calls, and the kernel's tick.
func setRequestConstants(spec *ebpf.CollectionSpec, first time.Duration) error {
	var coarse unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &coarse); err != nil {
		return fmt.Errorf("read the kernel's tick: %w", err)
	}
	for name, value := range map[string]any{
		bpf.RequestVarTickNs:       uint64(coarse.Nano()),
		bpf.RequestVarFirstEventNs: uint64(first),
		bpf.RequestVarBufferCalls:  [4]uint32{unix.SYS_READ, unix.SYS_RECVFROM, unix.SYS_WRITE, unix.SYS_SENDTO},
		bpf.RequestVarVectorCalls:  [2]uint32{unix.SYS_READV, unix.SYS_WRITEV},
		bpf.RequestVarMessageCalls: [2]uint32{unix.SYS_RECVMSG, unix.SYS_SENDMSG},
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// Watch sets the server processes, by PID.
func (r *Requests) Watch(pids map[uint32]bool) error {
	var errs []error
	for pid := range r.watched {
		if !pids[pid] {
			if err := r.objects.Servers.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				errs = append(errs, err)
			}
			delete(r.watched, pid)
		}
	}
	for pid := range pids {
		if r.watched[pid] {
			continue
		}
		if err := r.objects.Servers.Put(pid, uint8(1)); err != nil {
			errs = append(errs, fmt.Errorf("pid %d: %w", pid, err))
			continue
		}
		r.watched[pid] = true
	}
	return errors.Join(errs...)
}

// Drain appends the requests that have ended since the last call, and leaves those that end
// meanwhile: a server may be faster than the reader. now is CLOCK_MONOTONIC, ns. final also appends
// those that have not ended.
func (r *Requests) Drain(dst []tick.Request, now uint64, final bool) ([]tick.Request, error) {
	for range r.reader.AvailableBytes() / binary.Size(bpf.RequestRecord{}) {
		r.reader.SetDeadline(time.Unix(0, 0)) // read what is there
		if err := r.reader.ReadInto(&r.record); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			return dst, fmt.Errorf("read requests: %w", err)
		}
		var x bpf.RequestRecord
		if _, err := binary.Decode(r.record.RawSample, binary.LittleEndian, &x); err != nil {
			return dst, fmt.Errorf("read requests: %d bytes: %w", len(r.record.RawSample), err)
		}
		dst = append(dst, r.decode(&x))
	}
	return r.takeQuiet(dst, now, final)
}

// takeQuiet appends the responses that nothing was added to for a while, and forgets their
// connections: the next request on one makes it known again.
func (r *Requests) takeQuiet(dst []tick.Request, now uint64, final bool) ([]tick.Request, error) {
	isOver := func(c *bpf.RequestConnection) bool {
		if c.R.ReadNs == 0 || c.R.End != uint8(bpf.RequestResponseEndEND_OPEN) {
			return false
		}
		pause := paused
		switch bpf.RequestPhase(c.Phase) {
		case bpf.RequestPhasePHASE_REQUEST:
			return final
		case bpf.RequestPhasePHASE_HEAD:
			if tick.NoBody(c.R.Status) {
				pause = quiet
			}
		case bpf.RequestPhasePHASE_BODY:
			if c.R.Events < 2 && c.Streamed == 0 {
				pause = quiet
			}
		default:
			return false
		}
		return final || max(c.R.LastNs, c.R.WholeNs)+uint64(pause) < now
	}
	var over []uint64
	var key uint64
	var c bpf.RequestConnection
	each := r.objects.Connections.Iterate()
	for each.Next(&key, &c) {
		if isOver(&c) {
			over = append(over, key)
		}
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return dst, fmt.Errorf("read open connections: %w", err)
	}
	for _, key := range over {
		switch err := r.objects.Connections.LookupAndDelete(key, &c); {
		case errors.Is(err, ebpf.ErrKeyNotExist): // it was closed meanwhile
		case err != nil:
			return dst, fmt.Errorf("read an open connection: %w", err)
		case isOver(&c):
			dst = append(dst, r.decode(&c.R))
		default: // it went on meanwhile
			if err := r.objects.Connections.Update(key, &c, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
				return dst, fmt.Errorf("keep an open connection: %w", err)
			}
		}
	}
	return dst, nil
}

func (r *Requests) decode(x *bpf.RequestRecord) tick.Request {
	since := func(ns uint64) time.Duration {
		if ns == 0 {
			return -1
		}
		return time.Duration(ns - x.ArrivedNs)
	}
	return tick.Request{
		PID: x.Tgid, TID: x.Tid, Port: x.Port, Peer: netip.AddrPortFrom(netip.AddrFrom16(x.Peer).Unmap(), x.PeerPort),
		Arrived: r.toWall(x.ArrivedNs), Read: since(x.ReadNs), Whole: since(x.WholeNs), Head: since(x.HeadNs),
		First: since(x.FirstNs), Last: since(x.LastNs), Gap: time.Duration(x.GapNs),
		Events: x.Events, Received: x.Received, Sent: x.Sent, Refused: x.Refused, Unread: x.Unread,
		RoundTrip: time.Duration(x.SrttUs) * time.Microsecond, Status: x.Status, Post: x.Post != 0, End: tick.ResponseEnd(x.End),
	}
}

// unmeasured has the reasons why requests or connections are not measured.
var unmeasured = [bpf.RequestUnmeasuredUNMEASURED_REASONS]string{
	bpf.RequestUnmeasuredUNMEASURED_TLS:       "requests-tls",
	bpf.RequestUnmeasuredUNMEASURED_HTTP2:     "requests-http2",
	bpf.RequestUnmeasuredUNMEASURED_PROTOCOL:  "requests-other-protocol",
	bpf.RequestUnmeasuredUNMEASURED_PIPELINED: "requests-pipelined",
	bpf.RequestUnmeasuredUNMEASURED_CALL:      "requests-other-call",
	bpf.RequestUnmeasuredUNMEASURED_FULL:      "requests-connections-full",
	bpf.RequestUnmeasuredUNMEASURED_LOST:      "requests-ring-full",
}

// Drops returns how many connections or requests were not measured, by reason.
func (r *Requests) Drops() ([]tick.Drop, error) {
	var counts [bpf.RequestUnmeasuredUNMEASURED_REASONS]uint64
	if err := r.objects.Missed.Get(&counts); err != nil {
		return nil, fmt.Errorf("read the requests that were not measured: %w", err)
	}
	out := make([]tick.Drop, len(counts))
	for i, n := range counts {
		out[i] = tick.Drop{Reason: unmeasured[i], Count: n}
	}
	return out, nil
}

// Detach ends the measurement. Drain still returns what was measured. It is idempotent.
func (r *Requests) Detach() error {
	if r.detached {
		return nil
	}
	r.detached = true
	return closeLinks(r.links)
}

// Close detaches and frees everything.
func (r *Requests) Close() error {
	errs := []error{r.Detach()}
	if r.reader != nil {
		errs = append(errs, r.reader.Close())
	}
	return errors.Join(append(errs, r.objects.Close())...)
}
