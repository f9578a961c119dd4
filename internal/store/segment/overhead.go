package segment

import (
	"time"

	"ingero/internal/tick"
)

// shares returns pointers to an overhead's shares in the order of a log.
func shares(o *tick.Overhead) [6]*float64 {
	return [...]*float64{&o.Budget, &o.Share, &o.Probes, &o.Stacks, &o.Agent, &o.Tracepoints}
}

func appendOverhead(b []byte, o *tick.Overhead) []byte {
	for _, v := range shares(o) {
		b = appendFloat(b, *v)
	}
	b = appendUvarint(b, uint64(len(o.Shed)))
	for _, step := range o.Shed {
		b = appendString(b, step)
	}
	return b
}

// maxShed exceeds the number of levels.
const maxShed = 64

func readOverhead(r *reader) *tick.Overhead {
	o := &tick.Overhead{}
	for _, v := range shares(o) {
		*v = r.float()
	}
	n := r.count()
	if n > maxShed {
		r.fail()
		return o
	}
	for range n {
		o.Shed = append(o.Shed, r.string())
	}
	return o
}

func appendFloor(b []byte, f *tick.Floor) []byte {
	return appendUvarint(appendFloat(appendFloat(b, f.Share), f.Rate), zig(int64(f.Probe)))
}

func readFloor(r *reader) tick.Floor {
	return tick.Floor{Share: r.float(), Rate: r.float(), Probe: time.Duration(r.int())}
}
