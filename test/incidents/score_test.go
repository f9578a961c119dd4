//go:build measure

package incidents

import (
	"cmp"

	"ingero/test/scores"
)

// score is what the table has of a run.
type score struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	scores.Judged
	Wanted    int        `json:"wanted,omitempty"`
	Found     int        `json:"found,omitempty"`
	Named     int        `json:"named,omitempty"`
	Blamed    int        `json:"blamed,omitempty"`
	False     int        `json:"false,omitempty"`
	Diagnosed bool       `json:"diagnosed"`
	Alike     bool       `json:"alike"`               // the replay gave the same chains
	Disturbed bool       `json:"disturbed,omitempty"` // by other processes
	Hampered  bool       `json:"hampered,omitempty"`  // by the hypervisor
	Lost      *lostScore `json:"lost,omitempty"`      // nil: there was nothing to compare
}

// lostScore compares the reported lost time with the true one.
type lostScore struct {
	Said    float64 `json:"said_ms"`
	True    float64 `json:"true_ms"`
	Covered bool    `json:"covered"`
	Off     float64 `json:"off"`   // share of the true lost time
	Width   float64 `json:"width"` // share of the true lost time
	Delay   float64 `json:"delay_s"`
}

// scoreOf returns the score of a verdict.
func scoreOf(v *verdict, seed uint64, by scores.Judged) *score {
	x := &score{Name: v.Name, Seed: seed, Judged: by, Wanted: len(v.Want), Found: v.Found, Blamed: v.Blamed, False: len(v.False),
		Diagnosed: len(v.Misled) == 0, Alike: v.Replay == "", Disturbed: len(v.Disturbed) > 0, Hampered: v.Hampered}
	for i := range v.Want {
		if v.Want[i].Named {
			x.Named++
		}
	}
	if v.Found == len(v.Want) && v.Found > 0 && v.Clocked() {
		x.Lost = &lostScore{Said: float64(v.Said.Mid) / 1e6, True: float64(v.True.Mid) / 1e6, Covered: v.Covered(), Off: v.Off(), Width: v.Width(), Delay: v.Delay.Seconds()}
	}
	return x
}

// Compare orders scores by run.
func (x *score) Compare(y *score) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Seed, y.Seed))
}

// undisturbed reports whether the run counts.
func (x *score) undisturbed() bool { return !x.Disturbed && !x.Hampered }
