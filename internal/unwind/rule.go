package unwind

import "fmt"

// Kind says how a frame's caller is found: enum unwind_kind of bpf/stackabi.h.
type Kind uint8

// The kinds. The canonical frame address, CFA, is the stack pointer before the call.
const (
	KindNone    Kind = iota // nothing is known: the stack ends here, cut
	KindSP                  // CFA = sp + CFA
	KindFP                  // CFA = fp + CFA
	KindSPDeref             // CFA = *(sp + CFA)
	KindFPDeref             // CFA = *(fp + CFA), and the caller's fp is at fp + FP
	KindPLT                 // CFA = sp + CFA, 8 more from byte Arg of each 16 on
	KindSignal              // the registers are in the signal's frame at sp
	KindEnd                 // it has no caller: the thread began here
	KindChain               // CFA = fp + CFA, of code that keeps frame pointers; where fp is 0 the thread began
)

// Rule tells where a frame's caller is, for a run of addresses. Offsets are in bytes.
type Rule struct {
	Kind Kind
	Arg  uint8
	CFA  int32
	FP   int32 // the caller's frame pointer is at CFA + FP; 0: it is the frame's own
	RA   int32 // the return address is at CFA + RA; 0: in the link register
}

// String returns the rule as a person would write it.
func (r Rule) String() string {
	where := [...]string{KindSP: "sp%+d", KindFP: "fp%+d", KindSPDeref: "*(sp%+d)", KindFPDeref: "*(fp%+d)", KindPLT: "plt%+d", KindChain: "chain%+d"}
	switch r.Kind {
	case KindNone:
		return "none"
	case KindSignal:
		return "signal"
	case KindEnd:
		return "end"
	}
	s := fmt.Sprintf(where[r.Kind], r.CFA)
	if r.FP != 0 {
		s += fmt.Sprintf(" fp%+d", r.FP)
	}
	if r.RA != 0 {
		s += fmt.Sprintf(" ra%+d", r.RA)
	}
	return s
}

// MaxRules bounds the rules of all tables together: MAX_RULES of bpf/stackabi.h. All of
// PyTorch has some two thousand.
const MaxRules = 1 << 15

// Rules numbers rules; tables have the numbers. It only grows, up to MaxRules, beyond
// which a rule is as if it were not known. Rule 0 is KindNone, and rule 1 that of code
// that keeps frame pointers, which the walker knows by its number.
type Rules struct {
	ids map[Rule]uint16
	all []Rule
}

// chain holds for x86-64; where arm64 keeps them the distances from the CFA are the same.
var chain = Rule{Kind: KindChain, CFA: 16, FP: -16, RA: -8}

// NewRules returns the set that has rules 0 and 1 alone.
func NewRules() *Rules {
	return &Rules{ids: map[Rule]uint16{{}: 0, chain: 1}, all: []Rule{{}, chain}}
}

// From returns the rules with numbers from n on.
func (s *Rules) From(n int) []Rule { return s.all[n:] }

// Len returns how many there are.
func (s *Rules) Len() int { return len(s.all) }

func (s *Rules) id(r Rule) uint16 {
	if r.Kind == KindNone {
		return 0
	}
	id, ok := s.ids[r]
	if !ok && len(s.all) < MaxRules {
		id = uint16(len(s.all))
		s.ids[r] = id
		s.all = append(s.all, r)
	}
	return id
}
