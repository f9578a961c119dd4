package store

import (
	"strconv"

	"ingero/pkg/events"
)

const (
	maxSavedStacks  = 1 << 16 // stacks of a session in the SQLite file
	framesOfStack   = 2       // functions that only one stack has, at most on average
	savedStackShare = 4 << 10 // bytes of the database's limit per stack: stacks stay
)

var (
	sqlFrame = `INSERT OR IGNORE INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlStack = `INSERT OR IGNORE INTO stacks VALUES (?, ?, ?, ?, ?, ?)`
)

// kindNames are the kinds of frames in the file.
var kindNames = [...]string{events.FrameNative: "native", events.FramePython: "python", events.FrameGPU: "gpu", events.FrameGap: "gap"}

// savedStacks are the stacks that the file has, or will have after the next tick.
type savedStacks struct {
	waiting []events.Stack
	count   int
	frames  map[events.Frame]int // their numbers in the file
}

// mostStacks returns the maximum number of a session's stacks in the SQLite file.
func (v *saver) mostStacks() int {
	if v.rows.Bound > 0 {
		return int(min(maxSavedStacks, v.rows.Bound/savedStackShare))
	}
	return maxSavedStacks
}

// addStacks queues stacks.
func (v *saver) addStacks(list []events.Stack) {
	room := max(v.mostStacks()-v.stacks.count-len(v.stacks.waiting), 0)
	v.stacks.waiting = append(v.stacks.waiting, list[:min(len(list), room)]...)
}

// saveStacks writes the new stacks.
func (v *saving) saveStacks() error {
	k := &v.stacks
	if k.frames == nil {
		k.frames = map[events.Frame]int{}
	}
	made := map[events.Frame]int{} // in this transaction
	n := 0
	for ; n < len(k.waiting) && len(k.frames)+len(made) < framesOfStack*v.mostStacks(); n++ {
		s := &k.waiting[n]
		list := []byte{'['}
		for i, f := range s.Frames {
			f.IP = 0 // differs in each process
			id, ok := k.frames[f]
			if !ok {
				id, ok = made[f]
			}
			if !ok {
				id = len(k.frames) + len(made)
				made[f] = id
				if err := v.saveFrame(id, &f); err != nil {
					return err
				}
			}
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendInt(list, int64(id), 10)
		}
		if err := v.exec(&sqlStack, v.id, s.ID, s.PID, s.Cut, s.Place(), string(append(list, ']'))); err != nil {
			return err
		}
	}
	all := len(k.waiting)
	v.done = append(v.done, func() {
		for f, id := range made {
			k.frames[f] = id
		}
		k.count += n
		k.waiting = append(k.waiting[:0], k.waiting[all:]...)
	})
	return nil
}

func (v *saving) saveFrame(id int, f *events.Frame) error {
	return v.exec(&sqlFrame, v.id, id, kindNames[f.Kind], f.Func, f.File, null(int64(f.Line)), f.Module, int64(f.Offset), f.Inline)
}
