package tick

import (
	"cmp"
	"slices"
	"time"
)

// Server sums up the reads of an inference server: the state at the last successful read, and the
// growth over all reads. Why and Do are those of the last read.
type Server struct {
	Inference
	Covered time.Duration // time of the growth
}

// Limits of [Servers].
const (
	maxServers = 64
	maxBuckets = 128
)

// Servers sums up reads by server. The zero value is empty. It is not safe for concurrent use.
type Servers struct{ list []*Server }

// Add adds reads, in their order. It does not retain them.
func (s *Servers) Add(reads []Inference) {
	for i := range reads {
		x := &reads[i]
		at := slices.IndexFunc(s.list, func(y *Server) bool { return y.PID == x.PID && y.URL == x.URL })
		if at < 0 {
			if len(s.list) == maxServers {
				s.evict()
			}
			at = len(s.list)
			s.list = append(s.list, &Server{Inference: Inference{PID: x.PID, URL: x.URL}})
		}
		s.list[at].add(x)
	}
}

// evict removes the server that was read longest ago.
func (s *Servers) evict() {
	oldest := slices.MinFunc(s.list, func(a, b *Server) int { return a.Time.Compare(b.Time) })
	s.list = slices.DeleteFunc(s.list, func(x *Server) bool { return x == oldest })
}

// List returns the servers by PID. They belong to s.
func (s *Servers) List() []*Server {
	slices.SortStableFunc(s.list, func(a, b *Server) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.URL, b.URL)) })
	return s.list
}

func (s *Server) add(x *Inference) {
	s.Time, s.Why, s.Do = x.Time, x.Why, x.Do
	s.Engine, s.Model = cmp.Or(x.Engine, s.Engine), cmp.Or(x.Model, s.Model)
	if x.Why != "" {
		return
	}
	if !x.Since.IsZero() {
		s.Covered += max(0, x.Time.Sub(x.Since))
	}
	for i := range InferenceNumbers {
		f := &InferenceNumbers[i]
		to, from := f.Value(&s.Inference), *f.Value(x)
		switch {
		case from == nil && f.Counter:
		case from == nil:
			*to = nil
		case *to == nil || !f.Counter:
			*to = new(*from)
		default:
			**to += *from
		}
	}
	for i := range InferenceDurations {
		to, from := InferenceDurations[i].Value(&s.Inference), *InferenceDurations[i].Value(x)
		if from == nil {
			continue
		}
		if *to == nil {
			*to = &Durations{}
		}
		(*to).add(from)
	}
}

// add adds durations. Buckets beyond the limit are dropped.
func (d *Durations) add(x *Durations) {
	d.Count += x.Count
	d.Sum += x.Sum
	for _, b := range x.Buckets {
		at, found := slices.BinarySearchFunc(d.Buckets, b, func(a, b DurationBucket) int {
			return cmp.Or(cmp.Compare(a.Over, b.Over), cmp.Compare(a.UpTo, b.UpTo))
		})
		switch {
		case found:
			d.Buckets[at].Count += b.Count
		case len(d.Buckets) < maxBuckets:
			d.Buckets = slices.Insert(d.Buckets, at, b)
		}
	}
}

// PerSecond returns a counter's growth a second. It returns false if it is unknown.
func (s *Server) PerSecond(growth *float64) (rate float64, known bool) {
	if growth == nil || s.Covered <= 0 {
		return 0, false
	}
	return *growth / s.Covered.Seconds(), true
}
