package store

import (
	"hash/fnv"
	"ingero/pkg/events"
)

// maxQueued bounds the names of functions, and the beginnings of labels, that are queued while the disk
// is full or another process locks the database. It exceeds what a segment repeats, which a repair
// queues at once.
const maxQueued = 1 << 17

var (
	sqlName     = `INSERT OR IGNORE INTO names VALUES (?, ?, ?)`
	sqlFunction = `REPLACE INTO functions VALUES (?, ?, ?, ?, ?, ?, ?)`
)

// addFunctions queues names. If the queue is full, it drops further names, and counts them.
func (v *saver) addFunctions(list []events.Function) {
	n := min(len(list), maxQueued-len(v.named))
	v.leftOut += uint64(len(list) - n)
	v.named = append(v.named, list[:n]...)
}

// functions writes the new names.
func (v *saving) functions() error {
	for i := range v.named {
		f := &v.named[i]
		var id any
		if f.Why == 0 {
			id = nameHash(f.Name)
			if err := v.exec(&sqlName, v.id, id, f.Name); err != nil {
				return err
			}
		}
		if err := v.exec(&sqlFunction, v.id, f.PID, int64(f.Handle), f.Time, id, f.Why.String(), f.Why); err != nil {
			return err
		}
	}
	n := len(v.named)
	v.done = append(v.done, func() { v.named = append(v.named[:0], v.named[n:]...) })
	return nil
}

// nameHash returns a name's number, the same in any database.
func nameHash(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64())
}
