package segment

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ingero/internal/store/log"
	"ingero/internal/tick"
)

const (
	frameRequestsMax = 1 << 12 // per frame
	maxRequestsBody  = 4 << 20 // bytes that a reader accepts
)

// putRequests writes requests to servers, in frames of bounded size.
func (w *Writer) putRequests(list []tick.Request) {
	for part := range slices.Chunk(list, frameRequestsMax) {
		w.frame(frameRequests, latest(frameRequests), w.enc.column(nil, appendRequests(nil, part)))
	}
}

// requestTimes returns pointers to a request's times in the order of a log. All but the last two are
// -1 if they are not known.
func requestTimes(x *tick.Request) [7]*time.Duration {
	return [...]*time.Duration{&x.Read, &x.Whole, &x.Head, &x.First, &x.Last, &x.Gap, &x.RoundTrip}
}

// splitTimes returns pointers to what a request's time is divided into, in the order of a log.
func splitTimes(x *tick.Request) (all [20]*time.Duration) {
	for i, p := range [...]*tick.RequestTime{&x.ToFirst, &x.After} {
		copy(all[10*i:], []*time.Duration{&p.Idle, &p.Prompts, &p.Own, &p.Tokens, &p.Deliver, &p.GPU, &p.CPU, &p.Runnable, &p.Blocked, &p.Unknown})
	}
	return all
}

// Flags of a request in a log.
const (
	requestPost  = 1 << iota
	requestSplit // its time is divided
)

// appendRequests appends requests. Their arrivals are differences from the request before.
func appendRequests(b []byte, list []tick.Request) []byte {
	b = appendUvarint(b, uint64(len(list)))
	at := int64(0)
	for i := range list {
		x := &list[i]
		b = appendUvarint(b, zig(x.Arrived-at))
		at = x.Arrived
		for _, d := range requestTimes(x) {
			b = appendUvarint(b, zig(int64(*d)))
		}
		for _, n := range []uint64{uint64(x.PID), uint64(x.TID), uint64(x.Port), uint64(x.Events), x.Received, x.Sent,
			uint64(x.Refused), uint64(x.Unread), uint64(x.Status), uint64(x.End)} {
			b = appendUvarint(b, n)
		}
		flags := uint64(0)
		if x.Post {
			flags |= requestPost
		}
		if x.Split {
			flags |= requestSplit
		}
		b = appendUvarint(b, flags)
		if x.Split {
			for _, d := range splitTimes(x) {
				b = appendUvarint(b, uint64(*d))
			}
			for _, n := range []uint64{uint64(x.EnginePID), uint64(x.EngineTID), uint64(x.ToFirst.Steps), uint64(x.After.Steps)} {
				b = appendUvarint(b, n)
			}
		}
		peer, _ := x.Peer.MarshalBinary() // never fails
		b = appendString(b, string(peer))
	}
	return b
}

func readRequests(body []byte, version uint8, dec *decoder) ([]tick.Request, error) {
	outer := reader{b: body}
	r, err := dec.column(&outer, columns, maxRequestsBody)
	if err != nil {
		return nil, err
	}
	n := r.count()
	if n > frameRequestsMax {
		r.fail()
	}
	out := make([]tick.Request, 0, min(n, frameRequestsMax))
	at := int64(0)
	for range cap(out) {
		at += r.int()
		x := tick.Request{Arrived: at}
		for _, d := range requestTimes(&x) {
			*d = time.Duration(r.int())
		}
		x.PID, x.TID, x.Port, x.Events, x.Received, x.Sent = r.small(), r.small(), r.tiny(), r.small(), r.uint(), r.uint()
		x.Refused, x.Unread, x.Status, x.End = r.small(), r.small(), r.tiny(), tick.ResponseEnd(r.tiny())
		flags := r.uint()
		if x.Post, x.Split = flags&requestPost != 0, flags&requestSplit != 0; x.Split {
			for _, d := range splitTimes(&x) {
				*d = time.Duration(r.uint())
			}
			if version > 1 {
				x.EnginePID, x.EngineTID = r.small(), r.small()
				x.ToFirst.Steps, x.After.Steps = time.Duration(r.uint()), time.Duration(r.uint())
			}
		}
		var peer netip.AddrPort
		if err := peer.UnmarshalBinary([]byte(r.string())); err != nil || r.bad {
			r.fail()
			break
		}
		x.Peer = peer
		out = append(out, x)
	}
	if r.bad || len(r.b) != 0 || len(outer.b) != 0 {
		return nil, fmt.Errorf("%w: requests", log.ErrCorrupt)
	}
	return out, nil
}
