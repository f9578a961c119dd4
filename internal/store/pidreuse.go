package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

var sqlOther = `SELECT 1 FROM processes WHERE session = ? AND pid = ? AND started_ns IS NOT ?`

// counted are the forgotten tables whose rows sum the calls of all processes with one pid while
// ticks list the first of these processes.
var counted = []string{"ops", "gaps"}

// another reports whether the file has another process with the same pid. Call it before writing
// p's row.
func (v *saving) another(p *segment.Process) (bool, error) {
	if was, known := v.procs[p.PID]; known {
		return was.Started != p.Started, nil
	}
	var one int
	err := v.tx.Stmt(v.stmts[&sqlOther]).QueryRow(v.id, p.PID, null(p.Started)).Scan(&one)
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
	for _, f := range forgotten {
		reused := pids
		if f.before != "" || f.since {
			continue
		} else if slices.Contains(counted, f.table) {
			reused = anew
		}
		if len(reused) == 0 {
			continue
		}
		list, err := json.Marshal(slices.Collect(maps.Keys(reused)))
		if err != nil {
			return err
		}
		if _, err := v.tx.Exec("DELETE FROM "+f.table+" WHERE session = ? AND pid IN (SELECT value FROM json_each(?))", v.id, string(list)); err != nil {
			return err
		}
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
