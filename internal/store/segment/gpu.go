package segment

import (
	"maps"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
)

// stateEvery is how often a GPU's state is kept if only its figures change.
const stateEvery = 10 * time.Second

// maxGPUs bounds the GPUs that are kept.
const maxGPUs = 256

// xidJSON is a fault in a log.
type xidJSON struct {
	Time            int64          `json:"time_ns"`
	Code            uint32         `json:"code"`
	Switch          bool           `json:"switch,omitempty"`
	Bus             string         `json:"bus"`
	GPUInstance     tick.Number    `json:"gpu_instance,omitzero"`
	ComputeInstance tick.Number    `json:"compute_instance,omitzero"`
	Msg             string         `json:"msg"`
	Via             tick.XidVia    `json:"via"`
	NoCode          bool           `json:"no_code,omitempty"`
	CausedBy        uint32         `json:"caused_by,omitempty"`
	Injected        bool           `json:"injected,omitempty"`
	SaidPID         uint32         `json:"said_pid,omitempty"`
	SaidName        string         `json:"said_name,omitempty"`
	PID             uint32         `json:"pid,omitempty"`
	Comm            string         `json:"comm,omitempty"`
	Burst           uint64         `json:"burst"`
	At              int            `json:"at"`
	Root            uint32         `json:"root"`
	After           time.Duration  `json:"after_ns"`
	Last            []tick.XidCall `json:"last,omitempty"`
}

// gpuJSON is a GPU's state in a log.
type gpuJSON struct {
	Time         time.Time `json:"time"`
	Index        int       `json:"index"`
	Bus          string    `json:"bus"`
	UUID         string    `json:"uuid,omitempty"`
	Name         string    `json:"name,omitempty"`
	MIG          bool      `json:"mig,omitempty"`
	Lost         bool      `json:"lost,omitempty"`
	Throttle     []string  `json:"throttle,omitempty"`
	MemTotal     *int64    `json:"mem_total,omitempty"`
	MemUsed      *int64    `json:"mem_used,omitempty"`
	Busy         *float64  `json:"busy,omitempty"`
	MemBusy      *float64  `json:"mem_busy,omitempty"`
	ClockSM      *int64    `json:"clock_sm,omitempty"`
	ClockMem     *int64    `json:"clock_mem,omitempty"`
	ClockSMMax   *int64    `json:"clock_sm_max,omitempty"`
	Temperature  *float64  `json:"temperature,omitempty"`
	Power        *float64  `json:"power,omitempty"`
	PowerLimit   *float64  `json:"power_limit,omitempty"`
	ECCCorrected *int64    `json:"ecc_corrected,omitempty"`
	ECCLost      *int64    `json:"ecc_uncorrected,omitempty"`
}

// GPUChanges selects the GPU states to keep. It is not safe for concurrent use.
type GPUChanges map[string]gpuSeen

type gpuSeen struct {
	tick.GPU
	what string // everything but figures
}

// IsNew reports whether a state is new and must be kept.
func (n GPUChanges) IsNew(g *tick.GPU) bool {
	what := strings.Join(append([]string{g.UUID, g.Name}, g.Throttle...), ",")
	for _, flag := range []bool{g.MIG, g.Lost} {
		if flag {
			what += "+"
		} else {
			what += "-"
		}
	}
	was, known := n[g.Bus]
	switch {
	case known && (was.Time.Equal(g.Time) || was.what == what && g.Time.Sub(was.Time) < stateEvery),
		!known && len(n) >= maxGPUs:
		return false
	}
	n[g.Bus] = gpuSeen{*g, what}
	return true
}

// alike reports whether two states of a GPU differ at most in their figures.
func alike(a, b *tick.GPU) bool {
	return a.Bus == b.Bus && a.Index == b.Index && a.UUID == b.UUID && a.Name == b.Name && a.MIG == b.MIG && a.Lost == b.Lost && slices.Equal(a.Throttle, b.Throttle)
}

// carry repeats the previous segment's GPU states, functions and stacks, and continues from them. So
// a log has the states that the tables have. It also continues from the last tick's lists.
func (w *Writer) carry(from *Writer) error {
	if from == nil {
		return nil
	}
	w.gpus, w.known, w.listed = from.gpus, from.known, listed{processes: from.listed.processes, others: from.listed.others, ops: from.listed.ops}
	for _, bus := range slices.Sorted(maps.Keys(w.gpus)) {
		if err := w.json(frameGPU, gpuJSON(w.gpus[bus].GPU)); err != nil {
			return err
		}
	}
	w.putFunctions(w.known.functions.list)
	w.putStacks(w.known.stacks.list)
	w.putLabels(lasting(&w.known.labels))
	return nil
}

// gpu writes a tick's faults and its new GPU states.
func (w *Writer) gpu(t *tick.Tick) error {
	for i := range t.Xids {
		if err := w.json(frameXid, xidJSON(t.Xids[i])); err != nil {
			return err
		}
	}
	for i := range t.GPUs {
		g := &t.GPUs[i]
		last, known := w.gpus[g.Bus]
		if news := w.gpus.IsNew(g); news || known && !alike(&last.GPU, g) {
			w.gpus[g.Bus] = gpuSeen{*g, w.gpus[g.Bus].what}
			if err := w.json(frameGPU, gpuJSON(*g)); err != nil {
				return err
			}
		}
	}
	return nil
}

// gpuReplay is a replay's GPU state: faults not delivered yet, and GPUs of every tick.
type gpuReplay struct {
	xids []tick.Xid
	gpus []tick.GPU // last full states
	now  []tick.GPU // states from a tick's facts; nil: it had none
}

// take applies an entry.
func (r *gpuReplay) take(e *Entry) {
	switch {
	case e.Xid != nil:
		r.xids = append(r.xids, *e.Xid)
	case e.GPU != nil:
		if g := r.gpu(e.GPU.Bus); g != nil {
			*g = *e.GPU
		} else if len(r.gpus) < maxGPUs {
			r.gpus = append(r.gpus, *e.GPU)
		}
	case e.facts != nil && e.facts.gpus != nil:
		r.now = make([]tick.GPU, 0, len(e.facts.gpus))
		for i := range e.facts.gpus {
			r.now = append(r.now, r.state(&e.facts.gpus[i]))
		}
	}
}

func (r *gpuReplay) gpu(bus string) *tick.GPU {
	for i := range r.gpus {
		if r.gpus[i].Bus == bus {
			return &r.gpus[i]
		}
	}
	return nil
}

// state completes a GPU's state of a tick's facts.
func (r *gpuReplay) state(f *tick.GPU) tick.GPU {
	g := *f
	if known := r.gpu(f.Bus); known != nil {
		g.Index, g.UUID, g.Name, g.MIG, g.Lost, g.Throttle = known.Index, known.UUID, known.Name, known.MIG, known.Lost, known.Throttle
	}
	return g
}

// totals adds each fault once to a tick, and each GPU's current state.
func (r *gpuReplay) totals(t *tick.Tick) {
	t.Xids = append(t.Xids, r.xids...)
	r.xids = nil
	if r.now != nil {
		t.GPUs = append(t.GPUs, r.now...)
		return
	}
	for i := range r.gpus {
		if t.Time.IsZero() || t.Time.Sub(r.gpus[i].Time) < 2*stateEvery {
			t.GPUs = append(t.GPUs, r.gpus[i])
		}
	}
}

// readXid and readGPU decode the output of gpu.
func readXid(body []byte) (*tick.Xid, error) {
	j, err := unmarshal[xidJSON](body, "fault")
	x := tick.Xid(j)
	return &x, err
}

func readGPU(body []byte) (*tick.GPU, error) {
	j, err := unmarshal[gpuJSON](body, "GPU")
	g := tick.GPU(j)
	return &g, err
}
