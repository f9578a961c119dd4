package track

import (
	"cmp"
	"hash/fnv"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// comm is a communicator.
type comm struct {
	tick.Comm
	splits uint64 // number of splits: the ranks of a split find each other by it
}

// comms has the communicators of a process.
type comms struct {
	all     map[uint64]*comm
	ended   []tick.Comm // latest communicators whose handle was reused
	dropped int
	entered []tick.Entry
}

func (k *comms) reset() { *k = comms{all: map[uint64]*comm{}} }

// comm returns the communicator of a handle; with fresh, a new one that replaces it.
func (p *process) comm(handle uint64, fresh bool) *comm {
	k := &p.comms
	x := k.all[handle]
	if x != nil && !fresh {
		return x
	}
	if x == nil && len(k.all) >= maxHandles {
		p.untracked++
		return nil
	}
	if x != nil {
		if len(k.ended) >= maxListed {
			k.ended = append(k.ended[:0], k.ended[1:]...)
			k.dropped++
		}
		k.ended = append(k.ended, x.Comm)
	}
	x = &comm{Comm: tick.Comm{Number: p.number(), Handle: handle, Rank: -1}}
	k.all[handle] = x
	return x
}

// initComm takes in a new communicator.
func initComm(p *process, _ *thread, c *events.Call, _ *effect) {
	handle, ok := c.Value(events.RoleComm)
	if !done(c) || !ok || handle == 0 || nested(c) {
		return
	}
	x := p.comm(handle, true)
	if x == nil {
		return
	}
	x.Began, x.InitNS, x.Device, x.Last.TID = c.Start, c.Duration, c.Device, c.TID
	x.ID, _ = c.Value(events.RoleCommID)
	if n, ok := c.Value(events.RoleRanks); ok {
		x.Ranks = uint32(n)
	}
	if n, ok := c.Value(events.RoleRank); ok {
		x.Rank = int32(n)
	}
}

// splitComm takes in a communicator split off another. All ranks of the parent split it at once, so
// parent, number and color identify the child in every process.
func splitComm(p *process, _ *thread, c *events.Call, _ *effect) {
	from, ok := c.Value(events.RoleParent)
	if !done(c) || !ok || nested(c) {
		return
	}
	parent := p.comm(from, false)
	if parent == nil {
		return
	}
	parent.splits++
	child, ok := c.Value(events.RoleComm)
	if !ok || child == 0 { // this rank is in none
		return
	}
	x := p.comm(child, true)
	if x == nil {
		return
	}
	x.Began, x.InitNS, x.Device, x.Last.TID = c.Start, c.Duration, parent.Device, c.TID
	if color, ok := c.Value(events.RoleColor); ok && parent.ID != 0 && parent.Began != 0 {
		x.ID = mix(parent.ID, parent.splits, color)
	}
}

func mix(values ...uint64) uint64 {
	h := fnv.New64a()
	for _, v := range values {
		for i := range 8 {
			_, _ = h.Write([]byte{byte(v >> (8 * i))})
		}
	}
	return h.Sum64()
}

// dataBytes are the sizes of ncclDataType_t: int8, uint8, int32, uint32, int64, uint64,
// float16, float32, float64, bfloat16, float8e4m3, float8e5m2.
var dataBytes = [...]uint64{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}

// collective takes in an operation of a rank with other ranks of a communicator.
func collective(p *process, _ *thread, c *events.Call, e *effect) {
	handle, ok := c.Value(events.RoleComm)
	if !ok || nested(c) {
		return
	}
	x := p.comm(handle, false)
	if x == nil {
		return
	}
	x.Seq += uint64(c.Weight)
	if c.Flags&events.CallFailed != 0 {
		x.Failed += uint64(c.Weight)
	} else if !e.pair {
		p.comms.enter(x, c)
	}
	x.Last = tick.CommOp{Op: c.Op, TID: c.TID, Time: c.Start}
	x.Last.Elements, _ = c.Value(events.RoleElements)
	if t, ok := c.Value(events.RoleDatatype); ok {
		x.Last.Type = uint8(t)
		if int(x.Last.Type) < len(dataBytes) {
			x.Last.Bytes = x.Last.Elements * dataBytes[x.Last.Type]
		}
	}
	if x.Device == 0 {
		x.Device = c.Device
	}
}

// maxEntered bounds the collectives per tick and process with kept times.
const maxEntered = 1 << 14

// enter takes in a collective that the others of the communicator must enter too.
func (k *comms) enter(x *comm, c *events.Call) {
	x.Collectives += uint64(c.Weight)
	x.Inexact = x.Inexact || c.Weight > 1
	if len(k.entered) == maxEntered {
		k.entered = append(k.entered[:0], k.entered[maxEntered/2:]...)
	}
	k.entered = append(k.entered, tick.Entry{Comm: x.Number, Time: c.Start, Op: c.Op})
}

// lost records that operations of an unknown communicator have no records.
func (k *comms) lost() {
	for _, x := range k.all {
		x.Inexact = true
	}
}

// endComm takes in that a communicator was finalized, destroyed or aborted.
func endComm(p *process, _ *thread, c *events.Call, e *effect) {
	handle, ok := c.Value(events.RoleComm)
	if !ok || nested(c) || c.Flags&events.CallFailed != 0 {
		return
	}
	if x := p.comm(handle, false); x != nil {
		x.State = e.state
		x.Ended = c.End()
	}
}

// group takes in the begin or end of a group of operations.
func group(_ *process, th *thread, _ *events.Call, e *effect) {
	th.group = max(th.group+e.depth, 0)
}

func (k *comms) list() tick.List[tick.Comm] {
	out := append(make([]tick.Comm, 0, len(k.all)+len(k.ended)), k.ended...)
	for _, x := range k.all {
		out = append(out, x.Comm)
	}
	l := first(out, func(a, b tick.Comm) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Began, b.Began), cmp.Compare(a.Handle, b.Handle))
	})
	l.All += k.dropped
	return l
}
