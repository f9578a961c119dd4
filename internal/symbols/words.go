package symbols

// Limits of the names that are kept, for all processes together.
const (
	maxWords     = 1 << 16
	maxWordBytes = 32 << 20
)

// nameID is a name in the table of names, 0 for none.
type nameID uint32

// words are names, each kept once: the ranks of a job launch the same ones.
type words struct {
	ids   map[string]nameID
	list  []string // by nameID; [0] is ""
	free  []nameID
	bytes int
}

func newWords() words { return words{ids: map[string]nameID{}, list: []string{""}} }

// id returns the number of a name, 0 when there is no room.
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

// tight says that there is little room left.
func (w *words) tight() bool {
	return len(w.ids) > maxWords*3/4 || w.bytes > maxWordBytes*3/4
}

// sweep makes room where there is little: names that no process that lives has any
// more are forgotten.
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
