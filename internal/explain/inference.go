package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// serverOf returns a server for JSON.
func serverOf(s *tick.Server) wire.InferenceServer {
	return wire.InferenceServer{PID: s.PID, Engine: clean(s.Engine), Model: clean(s.Model), URL: clean(s.URL), Time: s.Time.UTC(), Why: s.Why, Do: s.Do,
		Running: s.Running, Waiting: s.Waiting, KVCache: s.KVCache, CoveredNS: s.Covered.Nanoseconds(), Preemptions: s.Preemptions,
		PromptTokens: s.PromptTokens, GeneratedTokens: s.GeneratedTokens, FirstToken: distribution(s.FirstToken), BetweenTokens: distribution(s.BetweenTokens),
		Request: distribution(s.Request), Queue: distribution(s.Queue), Prefill: distribution(s.Prefill), Decode: distribution(s.Decode)}
}

func distribution(d *tick.Durations) *wire.InferenceTimes {
	if d == nil {
		return nil
	}
	out := &wire.InferenceTimes{Count: d.Count, Sum: d.Sum}
	for q, to := range map[float64]**float64{0.5: &out.P50, 0.99: &out.P99} {
		if v, known := d.Quantile(q); known {
			*to = &v
		}
	}
	return out
}

// InferenceServers returns servers for JSON.
func InferenceServers(list []*tick.Server) (out []wire.InferenceServer) {
	for _, s := range list {
		out = append(out, serverOf(s))
	}
	return out
}

// readsOf returns the reads of a tick for JSON.
func readsOf(t *tick.Tick) []wire.InferenceServer {
	var s tick.Servers
	s.Add(t.Inference)
	return InferenceServers(s.List())
}

// serverName names an inference server.
func serverName(x *tick.Inference) string {
	name := clean(x.Engine)
	if name == "" {
		name = "inference server"
	}
	if x.Model != "" {
		name += " with " + clean(x.Model)
	}
	if x.PID == 0 {
		return name + " at " + clean(x.URL)
	}
	return fmt.Sprintf("%s (%d)", name, x.PID)
}

// stateText describes a server's requests and KV cache.
func stateText(x *tick.Inference) string {
	var parts []string
	if x.Running != nil {
		parts = append(parts, Count(uint64(*x.Running))+" running")
	}
	if x.Waiting != nil {
		parts = append(parts, Count(uint64(*x.Waiting))+" waiting")
	}
	if x.KVCache != nil {
		parts = append(parts, "KV cache "+Percent(*x.KVCache)+" full")
	}
	return strings.Join(parts, ", ")
}

// growthText describes a server's tokens and preemptions.
func growthText(s *tick.Server) string {
	var parts []string
	for _, x := range []struct {
		tokens *float64
		kind   string
	}{{s.PromptTokens, "prompt"}, {s.GeneratedTokens, "generated"}} {
		if rate, known := s.PerSecond(x.tokens); known {
			parts = append(parts, Count(uint64(rate+0.5))+" "+x.kind+" tokens/s")
		}
	}
	if s.Preemptions != nil {
		parts = append(parts, plural(uint64(*s.Preemptions), "preemption"))
	}
	return strings.Join(parts, ", ")
}

// quantilesText describes durations, "" if nothing is known of them.
func quantilesText(d *tick.Durations) string {
	if d == nil || d.Count == 0 {
		return ""
	}
	p50, known := d.Quantile(0.5)
	if !known {
		return "mean " + seconds(d.Sum/float64(d.Count))
	}
	p99, _ := d.Quantile(0.99)
	return "p50 " + seconds(p50) + ", p99 " + seconds(p99)
}

// seconds formats a duration in seconds.
func seconds(s float64) string { return Duration(int64(min(s, 1e9) * float64(time.Second))) }

// durationLabels are the labels of tick.InferenceDurations.
var durationLabels = [...]string{"first token", "between tokens", "request", "queue", "prefill", "decode"}

// servers writes what the inference servers report of themselves.
func (w *writer) servers(list []*tick.Server) {
	for _, s := range list {
		w.line("")
		w.text("Metrics of "+serverName(&s.Inference)+", as the server reports them:", "  ")
		for _, text := range []string{stateText(&s.Inference), growthText(s)} {
			if text != "" {
				w.hang("  - ", text)
			}
		}
		for i := range tick.InferenceDurations {
			d := *tick.InferenceDurations[i].Value(&s.Inference)
			if text := quantilesText(d); text != "" {
				w.hang("  - "+durationLabels[i]+": ", text+" ("+Count(d.Count)+")")
			}
		}
		if s.Why != "" {
			w.hang("  - ", whyText(&s.Inference))
		}
	}
}

// whyText says why the last read failed.
func whyText(x *tick.Inference) string { return joined("; ", "not readable: "+x.Why, x.Do) }

// OldestRead is the longest time for which a read of a server is shown.
const OldestRead = 2 * time.Minute

// addReads takes in reads of inference servers: the last of each.
func (s *Seen) addReads(reads []tick.Inference) {
	for i := range reads {
		x := reads[i]
		s.servers = slices.DeleteFunc(s.servers, func(y tick.Inference) bool {
			return y.PID == x.PID && y.URL == x.URL || x.Time.Sub(y.Time) > OldestRead
		})
		s.servers = append(s.servers, x)
	}
	slices.SortFunc(s.servers, func(a, b tick.Inference) int { return int(int64(a.PID) - int64(b.PID)) })
}

// servers shows a line for each inference server: its last read.
func (s *screen) servers(seen *Seen, now time.Time) {
	if seen == nil {
		return
	}
	for i := range seen.servers {
		x := &seen.servers[i]
		if now.Sub(x.Time) > OldestRead {
			continue
		}
		var sum tick.Servers
		sum.Add(seen.servers[i : i+1])
		one := sum.List()[0]
		text := joined(", ", stateText(x), growthText(one))
		for _, j := range []int{0, 1} {
			if q := quantilesText(*tick.InferenceDurations[j].Value(x)); q != "" {
				text = joined(", ", text, durationLabels[j]+" "+q)
			}
		}
		color := plain
		if x.Why != "" {
			text, color = whyText(x), yellow
		}
		for _, l := range wrap(serverName(x)+": "+text, "  ", s.width) {
			s.addLine(span{l, color})
		}
	}
}
