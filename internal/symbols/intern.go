package symbols

// Limits of the names of all processes together.
const (
	maxWords     = 1 << 16
	maxWordBytes = 32 << 20
)

// nameID is the number of a name, 0: none.
type nameID uint32

// words interns names: the ranks of a job launch the same ones.
type words struct {
	ids   map[string]nameID
	list  []string // by nameID; [0] is ""
	free  []nameID
	bytes int
}

func newWords() words { return words{ids: map[string]nameID{}, list: []string{""}} }

// id returns the number of a name, 0 if the table is full.
func (w *words) id(s string) nameID {
	if s == "" {
		return 0
	}
	if id := w.ids[s]; id != 0 {
		return id
	}
	if w.bytes+len(s) > maxWordBytes {
		return 0
	}
	var id nameID
	switch {
	case len(w.free) > 0:
		id = w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		w.list[id] = s
	case len(w.list) > maxWords:
		return 0
	default:
		id = nameID(len(w.list))
		w.list = append(w.list, s)
	}
	w.ids[s] = id
	w.bytes += len(s)
	return id
}

func (w *words) text(id nameID) string { return w.list[id] }

// tight reports whether little room is left.
func (w *words) tight() bool {
	return len(w.ids) > maxWords*3/4 || w.bytes > maxWordBytes*3/4
}

// sweep makes room if little is left: it evicts names that no living process uses.
func (n *Names) sweep() {
	w := &n.words
	if !w.tight() {
		return
	}
	used := make([]bool, len(w.list))
	mark := func(p *process) {
		for ; p != nil; p = p.parent {
			for _, r := range p.regs {
				used[r.name] = true
			}
			for i := range p.past {
				used[p.past[i].name] = true
			}
			for id := range p.names {
				used[id] = true
			}
		}
	}
	for _, p := range n.procs {
		mark(p)
	}
	for _, p := range n.ended {
		mark(p)
	}
	for id := 1; id < len(w.list); id++ {
		if s := w.list[id]; s != "" && !used[id] {
			delete(w.ids, s)
			w.bytes -= len(s)
			w.list[id] = ""
			w.free = append(w.free, nameID(id))
		}
	}
}
