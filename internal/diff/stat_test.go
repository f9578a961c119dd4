package diff

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noise describes a synthetic run.
type noise struct {
	blocks int
	step   float64 // ns
	sd     float64 // of a block's step, as a share
	rho    float64 // correlation with the previous block
	run    float64 // standard deviation between runs, as a share
	burst  int     // distance of blocks with longer steps
	hit    float64 // by this share
}

// made returns a run of blocks of a second.
func (n *noise) made(r *rand.Rand) *Series {
	s := newSeries(n.blocks)
	level := n.step * (1 + n.run*r.NormFloat64())
	x := r.NormFloat64()
	for i := range n.blocks {
		x = n.rho*x + math.Sqrt(1-n.rho*n.rho)*r.NormFloat64()
		step := level * (1 + n.sd*x)
		if n.burst > 0 && i%n.burst == 0 {
			step *= 1 + n.hit
		}
		s.At[i] = int64(i) * 1e9
		s.Steps[i] = math.Round(1e9 / step)
		s.add(i, StepKey, 1e9)
		rest := 1e9
		for _, part := range []Part{GapCPU, CallCPU, Runnable, Blocked} { // a tenth each, as noisy as the rest
			v := 1e8 * (1 + 2*n.sd*r.NormFloat64())
			s.add(i, Key{Kind: KindPart, Part: part}, v)
			rest -= v
		}
		s.add(i, Key{Kind: KindPart, Part: GPUWait}, rest)
	}
	return s
}

// findings returns the number of findings between two runs.
func findings(a, b *Series) (step Effect, n int) {
	x, y := &side{a, batched(a)}, &side{b, batched(b)}
	least := leastShare * x.mean(a, StepKey)
	step = test(x, y, StepKey, least)
	holm([]*Effect{&step})
	var all []*Effect
	for k := range a.Values {
		if k != StepKey {
			all = append(all, new(test(x, y, k, least)))
		}
	}
	holm(all)
	for _, e := range append(all, &step) {
		if e.Found {
			n++
		}
	}
	return step, n
}

// Two equal runs differ only by noise: fewer than one pair in a hundred has a finding, for any
// noise.
func TestNoFindingInNoise(t *testing.T) {
	const pairs = 500
	for name, n := range map[string]noise{
		"calm":             {blocks: 60, step: 15e6, sd: 0.002},
		"short":            {blocks: 10, step: 15e6, sd: 0.03},
		"noisy":            {blocks: 60, step: 15e6, sd: 0.1},
		"neighbours alike": {blocks: 120, step: 15e6, sd: 0.05, rho: 0.7},
		"slow waves":       {blocks: 300, step: 15e6, sd: 0.05, rho: 0.95},
		"runs differ":      {blocks: 60, step: 15e6, sd: 0.01, run: 0.003},
		"bursts":           {blocks: 90, step: 15e6, sd: 0.01, burst: 15, hit: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := 0
			for seed := range uint64(pairs) {
				r := rand.New(rand.NewPCG(seed, 1))
				if _, found := findings(n.made(r), n.made(r)); found > 0 {
					wrong++
				}
			}
			t.Logf("%s: %d of %d pairs", name, wrong, pairs)
			if wrong >= pairs/100 {
				t.Errorf("%d of %d pairs of equal runs have a finding", wrong, pairs)
			}
		})
	}
}

// A step that takes five percent longer is found, in noise and as bursts.
func TestPower(t *testing.T) {
	const pairs = 200
	for name, tt := range map[string]struct {
		noise
		change func(*noise)
		least  float64 // share of the pairs
	}{
		"5 %":                  {noise{blocks: 60, step: 15e6, sd: 0.02}, func(n *noise) { n.step *= 1.05 }, 0.99},
		"5 % faster":           {noise{blocks: 60, step: 15e6, sd: 0.02}, func(n *noise) { n.step *= 0.95 }, 0.99},
		"5 % in a short run":   {noise{blocks: 12, step: 15e6, sd: 0.01}, func(n *noise) { n.step *= 1.05 }, 0.95},
		"5 %, alike":           {noise{blocks: 300, step: 15e6, sd: 0.03, rho: 0.5}, func(n *noise) { n.step *= 1.05 }, 0.95},
		"2 % in a calm run":    {noise{blocks: 60, step: 15e6, sd: 0.002}, func(n *noise) { n.step *= 1.02 }, 0.99},
		"a tenth of the time":  {noise{blocks: 300, step: 15e6, sd: 0.01}, func(n *noise) { n.burst, n.hit = 10, 0.8 }, 0.95},
		"5 %, one stall in A":  {noise{blocks: 60, step: 15e6, sd: 0.01, burst: 60, hit: 20}, func(n *noise) { n.step, n.burst = n.step*1.05, 0 }, 0.99},
		"5 %, one stall in it": {noise{blocks: 60, step: 15e6, sd: 0.01}, func(n *noise) { n.step, n.burst, n.hit = n.step*1.05, 60, 20 }, 0.99},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for seed := range uint64(pairs) {
				r := rand.New(rand.NewPCG(seed, 2))
				b := tt.noise
				tt.change(&b)
				if step, _ := findings(tt.made(r), b.made(r)); step.Found {
					found++
				}
			}
			t.Logf("%s: %d of %d pairs", name, found, pairs)
			if float64(found) < tt.least*pairs {
				t.Errorf("%d of %d pairs found", found, pairs)
			}
		})
	}
}

// A single stall is no difference between runs.
func TestOneStall(t *testing.T) {
	calm := noise{blocks: 60, step: 15e6, sd: 0.01}
	stall := calm
	stall.burst, stall.hit = 60, 20
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		if step, n := findings(calm.made(r), stall.made(r)); n > 0 {
			t.Errorf("seed %d: %+v", seed, step)
		}
	}
}

// A run equals itself.
func TestSame(t *testing.T) {
	n := noise{blocks: 60, step: 15e6, sd: 0.1, rho: 0.5}
	s := n.made(rand.New(rand.NewPCG(1, 1)))
	if step, found := findings(s, s); found > 0 || step.Delta() != 0 {
		t.Errorf("%+v, %d findings", step, found)
	}
}

func TestStudent(t *testing.T) {
	for _, tt := range []struct{ t, df, want float64 }{
		{0, 5, 0.5}, {2.015, 5, 0.95}, {-2.015, 5, 0.05}, {2.228, 10, 0.975}, {1.96, 1e6, 0.975}, {63.66, 1, 0.995}, {4.587, 10, 0.9995},
	} {
		if got := cdfT(tt.t, tt.df); math.Abs(got-tt.want) > 1e-4 {
			t.Errorf("cdfT(%v, %v) = %v, want %v", tt.t, tt.df, got, tt.want)
		}
		if got := quantileT(tt.want, tt.df); math.Abs(got-tt.t) > 2e-3*max(1, math.Abs(tt.t)) {
			t.Errorf("quantileT(%v, %v) = %v, want %v", tt.want, tt.df, got, tt.t)
		}
	}
}

func TestWarm(t *testing.T) {
	x := make([]float64, 100)
	for i := range x {
		x[i] = 10 + float64(i%3)
		if i < 7 {
			x[i] += 30
		}
	}
	if got := warm(x); got != 7 {
		t.Errorf("%d blocks, want 7", got)
	}
	if got := warm(x[7:]); got > 3 {
		t.Errorf("%d blocks of a steady run", got)
	}
}
