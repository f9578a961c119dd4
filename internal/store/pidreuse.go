package store

import (
	"database/sql"
	"errors"
	"maps"

	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

var sqlOther = `SELECT 1 FROM processes WHERE session = ? AND pid = ? AND started_ns IS NOT ?`

// another reports whether the file has another process with the same pid. Call it before writing
// p's row.
func (v *saving) another(p *segment.Process) (bool, error) {
	if was, known := v.procs[p.PID]; known {
		return was.Started != p.Started, nil
	}
	var one int
	err := v.stmt(&sqlOther).QueryRow(v.id, p.PID, null(p.Started)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// succeed deletes the rows of earlier processes whose pids are reused. It updates memory at once:
// if the transaction fails, the next one writes more rows than have changed.
func (v *saving) succeed(pids map[uint32]bool, ops []tick.Op) error {
	if len(pids) == 0 {
		return nil
	}
	anew := maps.Clone(pids)
	for pid := range v.goOn(pids, ops) {
		delete(anew, pid)
	}
	if err := retention.Reused(v.tx, v.id, pids, anew); err != nil {
		return err
	}
	maps.DeleteFunc(v.stated, func(k stateKey, _ any) bool { return pids[k.pid] })
	maps.DeleteFunc(v.ops, func(k opID, _ savedOp) bool { return anew[k.pid] })
	for pid := range anew {
		if g := v.gaps[pid]; g != nil {
			g.Sub(&g.saved)
			g.saved = tick.Gap{}
		}
	}
	return nil
}

// goOn returns the pids for which the tick still includes every call that the file has.
func (v *saver) goOn(pids map[uint32]bool, ops []tick.Op) map[uint32]bool {
	calls := map[opID]uint64{}
	for i := range ops {
		if o := &ops[i]; pids[o.PID] {
			calls[opID{o.PID, o.Op}] = o.Sum.Calls
		}
	}
	out := map[uint32]bool{}
	for k, o := range v.ops {
		if before, seen := out[k.pid]; pids[k.pid] {
			out[k.pid] = (before || !seen) && calls[k] >= o.sum.Calls
		}
	}
	maps.DeleteFunc(out, func(_ uint32, all bool) bool { return !all })
	return out
}

// rememberedMore is how many processes beyond those in ticks are kept in memory.
const rememberedMore = 1024

// disremember drops from memory the state of processes that ticks no longer list.
func (v *saver) disremember(t *tick.Tick) {
	if len(v.procs) <= len(t.Processes)+rememberedMore {
		return
	}
	pids := t.PIDs()
	maps.DeleteFunc(v.procs, func(pid uint32, _ segment.Process) bool { return !pids[pid] })
	maps.DeleteFunc(v.ops, func(k opID, _ savedOp) bool { return !pids[k.pid] })
	maps.DeleteFunc(v.gaps, func(pid uint32, g *savedGap) bool { return !pids[pid] && g.saved == g.Gap && g != v.last })
	maps.DeleteFunc(v.stated, func(k stateKey, _ any) bool { return k.pid != 0 && !pids[k.pid] })
}
