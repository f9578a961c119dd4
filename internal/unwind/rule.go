package unwind

import "fmt"

// Kind is how to find a frame's caller: enum unwind_kind of bpf/stackabi.h.
type Kind uint8

// The kinds. The canonical frame address, CFA, is the stack pointer before the call.
const (
	KindNone    Kind = iota // unknown: the stack ends here, truncated
	KindSP                  // CFA = sp + CFA
	KindFP                  // CFA = fp + CFA
	KindSPDeref             // CFA = *(sp + CFA)
	KindFPDeref             // CFA = *(fp + CFA), and the caller's fp is at fp + FP
	KindPLT                 // CFA = sp + CFA, 8 more from byte Arg of each 16 on
	KindSignal              // the registers are in the signal frame at sp
	KindEnd                 // no caller: the thread began here
	KindChain               // CFA = fp + CFA, for code with frame pointers; fp 0 means the thread began here
)

// Rule locates a frame's caller, for a range of addresses. Offsets are in bytes.
type Rule struct {
	Kind Kind
	Arg  uint8
	CFA  int32
	FP   int32 // the caller's frame pointer is at CFA + FP; 0: unchanged
	RA   int32 // the return address is at CFA + RA; 0: in the link register
}

// String returns the rule in readable form.
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

// MaxRules bounds the distinct rules of all tables: MAX_RULES of bpf/stackabi.h. All of PyTorch has
// some two thousand.
const MaxRules = 1 << 15

// maxOwner bounds the rules that files of one owner other than root add, so that a hostile file leaves room.
const maxOwner = MaxRules / 4

// Rules numbers the rules that tables refer to. It only grows. Beyond its bounds, new rules become
// rule 0. Rule 0 is KindNone. Rule 1 is for code with frame pointers; the walker knows its number.
type Rules struct {
	ids   map[Rule]uint16
	all   []Rule
	added map[uint32]int // by owners other than root
}

// chain is for x86-64; on arm64 the distances from the CFA are the same.
var chain = Rule{Kind: KindChain, CFA: 16, FP: -16, RA: -8}

// NewRules returns a set with rules 0 and 1.
func NewRules() *Rules {
	return &Rules{ids: map[Rule]uint16{{}: 0, chain: 1}, all: []Rule{{}, chain}, added: map[uint32]int{}}
}

// After returns the rules from number n on.
func (s *Rules) After(n int) []Rule { return s.all[n:] }

// Len returns the number of rules.
func (s *Rules) Len() int { return len(s.all) }

// id returns the number of a rule of a file. ok is false if there is no room for it.
func (s *Rules) id(r Rule, owner uint32) (id uint16, ok bool) {
	if r.Kind == KindNone {
		return 0, true
	}
	if id, ok = s.ids[r]; ok {
		return id, true
	}
	if len(s.all) == MaxRules || s.added[owner] == maxOwner {
		return 0, false
	}
	if owner != 0 {
		s.added[owner]++
	}
	id = uint16(len(s.all))
	s.ids[r] = id
	s.all = append(s.all, r)
	return id, true
}
