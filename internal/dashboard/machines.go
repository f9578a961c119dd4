package dashboard

// Machine is another machine, with its findings. If it did not answer, it has the address and the
// error.
type Machine struct {
	Address  string   `json:"address"`
	Name     string   `json:"name"`
	Version  string   `json:"version,omitempty"`
	AheadNS  int64    `json:"ahead_ns"` // clock offset; negative: behind
	WithinNS int64    `json:"within_ns"`
	Chains   int      `json:"chains"`
	Gravest  *Gravest `json:"gravest"` // null: nothing was found
	Faults   int      `json:"faults"`  // GPU faults
	Error    string   `json:"error,omitempty"`
	Do       string   `json:"do,omitempty"`
}

// Gravest is the most expensive cause on a machine.
type Gravest struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	PID      uint32 `json:"pid"`
	Comm     string `json:"comm"`
	Headline string `json:"headline"`
	LostNS   int64  `json:"lost_ns"`
}

// fleet queries the configured machines.
func (a *request) fleet() (any, error) {
	if a.q.From.IsZero() {
		a.q.To = a.Now()
		a.q.From = a.q.To.Add(-a.q.Window)
	}
	out := struct {
		aboutJSON
		Machines []Machine `json:"machines"`
		Notes    []string  `json:"notes"`
	}{aboutJSON: a.about(), Machines: []Machine{}, Notes: []string{}}
	if a.Fleet == nil {
		return out, nil
	}
	machines, notes, err := a.Fleet(a.ctx, a.q.From, a.q.To)
	out.Machines, out.Notes = append(out.Machines, machines...), append(out.Notes, notes...)
	return out, err
}
