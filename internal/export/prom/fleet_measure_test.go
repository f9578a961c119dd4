//go:build measure

package prom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ingero/internal/metric"
	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// One Prometheus scrapes a fleet of 1,000 machines of 8 processes, four times a minute, and evaluates
// the rules and alerts. Afterwards the dashboard's panels query all machines, and one. Each machine has
// the same values under its own labels.
func TestFleet(t *testing.T) {
	testkit.NeedTool(t, "prometheus")
	const (
		machines = 1000
		every    = 15 * time.Second
		settle   = 2 * every // each machine has been scraped
		window   = 8 * every
		limit    = every // of a panel's query
	)
	m := newMachine(8)
	s := serve(t, ":0", m.snapshot)
	front := httptest.NewServer(s.http.Handler) // a Server accepts the connections of one machine's readers only
	t.Cleanup(front.Close)
	rules, err := filepath.Abs("../../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	fmt.Fprintf(&config, "rule_files: ['%s']\n", rules)
	config.WriteString("scrape_configs:\n- job_name: ingero\n  static_configs:\n")
	for i := range machines {
		fmt.Fprintf(&config, "  - {targets: ['%s'], labels: {instance: gpu-%d}}\n", strings.TrimPrefix(front.URL, "http://"), i)
	}
	p := testkit.NewPrometheus(t, testkit.PrometheusOptions{Every: every, Config: config.String()})
	<-time.After(settle)
	cpu, samples, began := p.Own("process_cpu_seconds_total"), p.Own("prometheus_tsdb_head_samples_appended_total"), time.Now()
	<-time.After(window)
	took := time.Since(began).Seconds()
	testkit.Measured(t, "cpu", 100*(p.Own("process_cpu_seconds_total")-cpu)/took, "%", testkit.Lower)
	testkit.Measured(t, "samples", (p.Own("prometheus_tsdb_head_samples_appended_total")-samples)/took, "samples/s", testkit.Lower)
	testkit.Measured(t, "series", p.Own("prometheus_tsdb_head_series")/machines, "series/machine", testkit.Lower)
	testkit.Measured(t, "memory", p.Own("process_resident_memory_bytes")/1e6, "MB", testkit.Lower)
	testkit.Measured(t, "rules", 1e3*p.Own("prometheus_rule_group_last_duration_seconds"), "ms", testkit.Lower)
	testkit.MeasuredShare(t, "scraped", int(p.One("sum(up)")), machines, testkit.Higher)
	for name, instance := range map[string]string{"panels-of-all": ".*", "panels-of-one": "gpu-7"} {
		with := strings.NewReplacer("$instance", instance, "$process", ".*", "$__rate_interval", "1m")
		sum, answered, all := 0.0, 0, 0
		for _, panel := range testkit.Panels(t, "../../../deploy/grafana/ingero-prometheus.json") {
			for _, target := range panel.Targets {
				ended := false
				sum += testkit.MedianMS(1, func() { ended = p.Range(with.Replace(target.Expr), window, every, limit) })
				if all++; ended {
					answered++
				} else {
					t.Logf("no answer in %s: %s", limit, target.Expr)
				}
			}
		}
		testkit.Measured(t, name, sum, "ms", testkit.Lower)
		testkit.MeasuredShare(t, name+"-answered", answered, all, testkit.Higher)
	}
}

// machine makes the metrics of a machine: in each second each of its processes makes calls of twelve
// operations, and waits for three other programs. Methods are safe for concurrent use.
type machine struct {
	mu    sync.Mutex
	meter *metric.Meter
	batch tick.Batch
	tick  tick.Tick
	r     *rand.Rand
}

// operations of a machine's processes, and calls of each in a second.
const (
	operations = 12
	calls      = 100
)

func newMachine(processes int) *machine {
	m := &machine{meter: metric.New(metric.Options{Version: "1.2.3", Node: "gpu"}), r: rand.New(rand.NewPCG(1, 2)),
		tick: tick.Tick{Started: epoch, Window: time.Second, Host: tick.Host{CPUs: 64}}}
	busy, bytes, celsius := 0.9, int64(80<<30), 60.0
	for i := range processes {
		pid := uint32(i + 1)
		m.tick.Processes = append(m.tick.Processes, tick.Process{PID: pid, Comm: "python3", Started: epoch})
		m.tick.Threads = append(m.tick.Threads, tick.Thread{PID: pid, TID: pid})
		m.tick.Breakdowns = append(m.tick.Breakdowns, tick.Breakdown{PID: pid, ByThread: []tick.ThreadTime{{TID: pid}}})
		m.tick.GPUs = append(m.tick.GPUs, tick.GPU{Index: i, Bus: fmt.Sprintf("0000:%02x:00.0", i), Name: "NVIDIA H200", Busy: &busy, MemBusy: &busy,
			MemUsed: &bytes, MemTotal: &bytes, Temperature: &celsius, Power: &celsius, PowerLimit: &celsius, ClockSM: &bytes})
		for j := range operations {
			op := events.Catalog[j].Op
			m.tick.Ops = append(m.tick.Ops, tick.Op{PID: pid, Op: op, Dur: &stats.Sketch{}})
			m.batch.Calls = append(m.batch.Calls, events.Call{PID: pid, TID: pid, Op: op, Duration: 1000, OnCPU: 600, Runnable: 400, Weight: 1, Gap: 100})
		}
		for j := range 3 {
			m.batch.Waits = append(m.batch.Waits, events.Wait{PID: pid, TID: pid, Op: events.Catalog[j].Op, State: events.WaitRunnable, Duration: 20, Taken: 20,
				Who: events.Thread{PID: 900, TID: 900, Name: events.NameOf(fmt.Sprintf("other%d", j))}})
		}
	}
	return m
}

// snapshot returns the current metrics. A new second begins when the last one has passed.
func (m *machine) snapshot() *metric.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.tick.Time) >= time.Second {
		m.second(now)
	}
	return m.meter.Snapshot()
}

func (m *machine) second(now time.Time) {
	m.tick.Time = now
	m.tick.Seq++
	for i := range m.tick.Ops {
		o := &m.tick.Ops[i]
		o.DurLast = &stats.Sketch{}
		for range calls {
			o.DurLast.Add(int64(10_000*float64(i%operations+1)*math.Exp(0.5*m.r.NormFloat64())), 1)
		}
		o.Dur.Merge(o.DurLast)
		o.Last = tick.Counts{Calls: calls, Done: calls}
		o.Sum.Calls += calls
		o.Sum.Done += calls
	}
	_ = m.meter.Batch(&m.batch) // a meter's sinks do not fail
	_ = m.meter.Tick(&m.tick)
}
