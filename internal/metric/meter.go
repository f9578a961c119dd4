package metric

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"ingero/internal/tick"
)

// linger is how long an ended process keeps its series: long enough for a scrape once a minute to
// get the last values.
const linger = 5 * time.Minute

// Options configure a meter.
type Options struct {
	Version, Node string
	// Publish gets each tick's metrics, on the goroutine that calls Tick; nil: they are available
	// from Snapshot only.
	Publish func(*Snapshot)
}

// Meter sums up ticks. It is a [tick.Sink]. Only Snapshot is safe for concurrent use.
type Meter struct {
	Options
	now       atomic.Pointer[Snapshot]
	families  [ids]Family
	over      [ids]uint64
	started   time.Time
	time      time.Time // of the current tick
	procs     processes
	ops       operations
	ledger    ledger
	chains    chains
	machine   machine
	inference inference
	served    requests
	engines   slots[modelKey, engineSteps]
}

// New returns an empty meter.
func New(o Options) *Meter {
	m := &Meter{Options: o}
	m.procs.byPID = map[uint32]*process{}
	m.ops.byOp, m.ops.hists = map[opID]*operation{}, map[opPID]*histState{}
	m.ledger.init()
	m.chains.init()
	m.machine.init()
	m.inference.init()
	m.served.servers = newSlots[serviceKey, service](mostServers, serviceKey{Other, Other, Other})
	m.engines = newSlots[modelKey, engineSteps](mostModels, otherModel)
	return m
}

// Snapshot returns the metrics of the last tick, nil before the first.
func (m *Meter) Snapshot() *Snapshot { return m.now.Load() }

// Batch implements [tick.Sink].
func (m *Meter) Batch(b *tick.Batch) error {
	m.ledger.batch(b)
	return nil
}

// Tick implements [tick.Sink].
func (m *Meter) Tick(t *tick.Tick) error {
	m.started, m.time = t.Started, t.Time
	m.families = [ids]Family{}
	m.processes(t)
	m.operations(t)
	m.times(t)
	m.anomalies(t)
	m.state(t)
	m.gpus(t)
	m.servers(t)
	m.requests(t)
	m.engineSteps(t)
	m.host(t)
	m.agent(t)
	m.series()
	s := &Snapshot{Time: t.Time, Taken: time.Now(), Started: t.Started, Ahead: t.Ahead}
	if t.Ahead < 0 { // a counter cannot start after its time
		s.Started = s.Wall(s.Started)
	}
	for id := range m.families {
		if f := m.families[id]; len(f.Points) > 0 {
			f.Row = &Rows[id]
			s.Families = append(s.Families, f)
		}
	}
	m.now.Store(s)
	if m.Publish != nil {
		m.Publish(s)
	}
	return nil
}

// Close implements [tick.Sink].
func (m *Meter) Close() error { return nil }

// series makes the points of the numbers of series, and of what had no room.
func (m *Meter) series() {
	for id := range ids {
		r := &Rows[id]
		if r.Most == 1 || id >= SeriesNow || len(m.families[id].Points) == 0 && m.over[id] == 0 {
			continue
		}
		m.set(SeriesNow, float64(len(m.families[id].Points)), r.Name)
		m.set(SeriesMost, float64(r.Most), r.Name)
		m.set(SeriesOver, float64(m.over[id]), r.Name)
	}
}

// text makes a foreign text valid for a label: UTF-8, one line, bounded length.
func text(s string) string {
	const most = 128
	if len(s) > most {
		s = s[:most]
	}
	clean := utf8.ValidString(s)
	for i := 0; clean && i < len(s); i++ {
		clean = s[i] >= ' ' && s[i] != 0x7f
	}
	if clean {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
