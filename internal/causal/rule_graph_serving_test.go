package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
)

// Graphs captured while requests wait cost the capture and the run of the kernels before it.
func TestRecapturedWhileServing(t *testing.T) {
	for name, tt := range map[string]struct {
		running int
		first   bool // before the first launch of a graph
		prompt  bool // the step before the capture computed a prompt
		lost    time.Duration
		text    string
	}{
		"requests wait":    {running: 8, lost: 5 * (100*time.Millisecond + 48*time.Millisecond), text: "5 captures while requests were running"},
		"after a prompt":   {running: 8, prompt: true, lost: 5 * 48 * time.Millisecond, text: "5 captures while requests were running"},
		"nobody waits":     {},
		"before the first": {running: 8, first: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			capture := func() {
				s.step(0, 100*time.Millisecond, false)
				s.steps[len(s.steps)-1].Launches = 64
				if tt.prompt {
					s.request("10.0.0.9", s.at-int64(time.Second/10), s.at+int64(time.Millisecond), s.at+int64(2*time.Millisecond), 400)
				}
				s.step(0, 50*time.Millisecond, !tt.first)
				s.steps[len(s.steps)-1].Marks |= ledger.MarkCapture
			}
			if tt.first {
				for range 5 {
					capture()
				}
			}
			s.serveTokens(20, 0, func(second, n int, x *ledger.Step) {})
			if !tt.first {
				for range 5 {
					capture()
				}
			}
			for range tt.running {
				s.request("10.0.0.5", servedFrom-int64(time.Millisecond), servedFrom, s.at, 400)
			}
			if tt.running == 0 {
				s.request("10.0.0.5", s.at+int64(time.Millisecond), s.at+int64(2*time.Millisecond), s.at+int64(3*time.Millisecond), 400)
			}
			got := s.chains("graph-recapture")
			if tt.lost == 0 {
				if len(got) != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Lost < tt.lost*96/100 || got[0].Lost > tt.lost*104/100 || !strings.HasPrefix(got[0].Culprits[0].What, tt.text) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// oneByOne makes a step launch its kernels one by one: on a CPU for that time, or waiting for the GPU.
func oneByOne(x *ledger.Step, cpu time.Duration) {
	x.Marks, x.Launches = ledger.MarkLaunch, 64
	if cpu > 0 {
		x.Parts.GPUWait, x.Parts.GapCPU = 0, int64(cpu)
	} else {
		x.Parts.GPUWait = int64(6 * time.Millisecond)
	}
}

// Steps for tokens without a graph cost what they take beyond steps with a graph and about as many
// requests.
func TestTokensWithoutGraph(t *testing.T) {
	for name, tt := range map[string]struct {
		each      int           // number of steps for one without a graph
		cpu       time.Duration // in such a step
		alone     bool
		undivided bool  // a request has no first byte yet: each step may have computed its prompt
		recent    bool  // all is in the last second, and requests take longer
		prompts   bool  // nine of ten steps compute the prompt of a request, more of them than are sampled
		idle      int64 // seconds after the last step
		lost      time.Duration
		text      string
	}{
		"some steps":                            {each: 4, cpu: 6 * time.Millisecond, lost: 500 * 4 * time.Millisecond, text: " steps without a graph, with 8 requests running, which waited "},
		"as fast as with a graph":               {each: 4, cpu: 2 * time.Millisecond},
		"the GPU computes prompts":              {each: 4},
		"nobody waits":                          {each: 4, cpu: 6 * time.Millisecond, alone: true},
		"no graph is known":                     {each: 1, cpu: 6 * time.Millisecond},
		"or steps for a prompt":                 {each: 4, cpu: 6 * time.Millisecond, undivided: true},
		"or prompts of requests that still run": {each: 4, cpu: 6 * time.Millisecond, recent: true},
		"or prompts of many requests":           {each: 1, cpu: 6 * time.Millisecond, prompts: true},
		"or prompts over a minute ago":          {each: 1, cpu: 6 * time.Millisecond, prompts: true, idle: 50},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServed()
			s.idle = tt.idle
			running := 8
			if tt.alone {
				running = 1
			}
			s.serveTokens(20, running, func(second, n int, x *ledger.Step) {
				if n%tt.each != 0 || tt.recent && second < 19 || tt.prompts && n%10 == 0 {
					return
				}
				if tt.prompts {
					end := x.From + int64(tt.cpu+time.Millisecond)
					s.request("10.0.0.9", x.From, end, servedFrom+20e9, 400)
				}
				oneByOne(x, tt.cpu)
			})
			if tt.each == 1 && !tt.prompts {
				for i := range s.steps {
					s.steps[i].Marks = 0
				}
			}
			if tt.alone { // the request ended before
				s.requests[0].Last = s.requests[0].First
			}
			if tt.undivided {
				r := s.request("10.0.0.9", servedFrom, s.at, s.at, 400)
				r.Split, r.EngineTID = false, 0
			}
			got := s.chains("graph-unused")
			if ofEngine(t, got, tt.lost) && (!strings.Contains(got[0].Culprits[0].What, tt.text) || got[0].To.Sub(got[0].From) < 18*time.Second) {
				t.Errorf("%+v", got)
			}
		})
	}
}
