package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Take is how the kernel computes one kept value. Values as in bpf/abi.h.
type Take uint8

// The ways to take a value.
const (
	TakeNone       Take = iota
	TakeSlot            // slot, masked to Bytes
	TakeConst           // Off
	TakeProduct         // slot * slot2, each masked to Bytes
	TakeOut             // *(slot + Off) at return, Bytes wide
	TakeDim3            // two slots from Slot
	TakePack3           // three int slots from Slot
	TakeMem             // *(slot + Off) at entry, Bytes wide
	TakeMemDim3         // a dim3 at slot + Off
	TakeMemProduct      // *(u64 *)(slot + Off) * *(u64 *)(slot + Off2)
	TakeMemVolume       // the product of three u64 from slot + Off
	TakePair            // slot | slot2 << 16
)

// Rule is one compiled expression. Slots count from 1, in the order of the calling convention:
// registers first, then the stack. Slot 0 has the address of the first argument on the stack.
type Rule struct {
	Take  Take
	Slot  uint8
	Slot2 uint8
	Bytes uint8 // 4 or 8
	Off   uint16
	Off2  uint16
}

// Convention is how an architecture passes integer arguments to C functions.
type Convention struct {
	Regs uint8 // number of arguments in registers
	// StructsOnStack: structures of more than 16 bytes are among the arguments on the stack;
	// otherwise a pointer to a copy replaces them.
	StructsOnStack bool
}

// The conventions of System V on x86-64 and of AAPCS64.
var (
	AMD64 = Convention{Regs: 6, StructsOnStack: true}
	ARM64 = Convention{Regs: 8}
)

// Param is one C parameter of a row.
type Param struct {
	Name  string
	Type  string // "", "int", "dim3" or "struct"
	Bytes uint16 // of a struct
	Slot  uint8  // its first slot, from 1; 0: a struct on the stack
	Stack uint16 // offset on the stack in bytes, if it is there
}

// ParamList splits Params and assigns each parameter its place. It fails if a dim3 would be half in
// registers and half on the stack, which no supported convention does.
func (r *Row) ParamList(cc Convention) ([]Param, error) {
	var out []Param
	if strings.TrimSpace(r.Params) == "" {
		return nil, nil
	}
	regs, stack := cc.Regs, uint16(0) // left, used
	for p := range strings.SplitSeq(r.Params, ",") {
		q, err := parseParam(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		words := uint8(1)
		if q.Type == "dim3" {
			words = 2
		}
		switch {
		case q.Type == "struct" && cc.StructsOnStack:
			q.Stack = stack
			stack += q.Bytes
		case words <= regs:
			q.Slot = cc.Regs - regs + 1
			regs -= words
		case regs > 0:
			return nil, fmt.Errorf("%s: %s would straddle registers and stack", r.Name, q.Name)
		default:
			q.Slot, q.Stack = cc.Regs+1+uint8(stack/8), stack
			stack += 8 * uint16(words)
		}
		out = append(out, q)
	}
	return out, nil
}

// parseParam parses "count", "kind int", "gridDim dim3" or "extent struct24".
func parseParam(s string) (Param, error) {
	f := strings.Fields(s)
	if len(f) == 1 {
		return Param{Name: f[0]}, nil
	}
	if len(f) == 2 && (f[1] == "int" || f[1] == "dim3") {
		return Param{Name: f[0], Type: f[1]}, nil
	}
	if len(f) == 2 {
		size, is := strings.CutPrefix(f[1], "struct")
		if n, err := strconv.ParseUint(size, 10, 16); is && err == nil && n > 16 && n%8 == 0 {
			return Param{Name: f[0], Type: "struct", Bytes: uint16(n)}, nil
		}
	}
	return Param{}, fmt.Errorf("bad parameter %q", strings.TrimSpace(s))
}

// Rules compiles Keep, and Tag if there is one.
func (r *Row) Rules(cc Convention) (keep []Rule, tag Rule, err error) {
	if role, _ := SplitRole(strings.Join(r.Keep[:min(1, len(r.Keep))], "")); r.Text && role != RoleName {
		return nil, tag, fmt.Errorf("%s: the first value of a row with a text is the name", r.Name)
	}
	if len(r.Keep) > MaxArgs {
		return nil, tag, fmt.Errorf("%s keeps %d values, at most %d fit", r.Name, len(r.Keep), MaxArgs)
	}
	params, err := r.ParamList(cc)
	if err != nil {
		return nil, tag, err
	}
	for _, x := range r.Keep {
		_, x = SplitRole(x)
		u, err := compile(r, params, x)
		if err != nil {
			return nil, tag, err
		}
		keep = append(keep, u)
	}
	if r.Tag != "" {
		_, x := SplitRole(r.Tag)
		if tag, err = compile(r, params, x); err != nil {
			return nil, tag, err
		}
	}
	return keep, tag, nil
}

// parameters looks up the parameters that an expression names.
type parameters []Param

// any returns a parameter by name.
func (ps parameters) any(name string) (Param, error) {
	for _, p := range ps {
		if p.Name == name {
			return p, nil
		}
	}
	return Param{}, fmt.Errorf("no such parameter as %q", name)
}

// find returns a parameter in a readable slot.
func (ps parameters) find(name string) (Param, error) {
	p, err := ps.any(name)
	if err == nil && (p.Slot > MaxSlots || p.Type == "struct") {
		return Param{}, fmt.Errorf("%q is in no slot that can be read", name)
	}
	return p, err
}

func compile(r *Row, params []Param, expr string) (Rule, error) {
	u, err := parameters(params).compile(expr)
	if err != nil {
		return Rule{}, fmt.Errorf("%s: %q: %w", r.Name, expr, err)
	}
	return u, nil
}

func (ps parameters) compile(expr string) (Rule, error) {
	switch {
	case strings.HasPrefix(expr, "="):
		n, err := strconv.ParseUint(expr[1:], 0, 16)
		if err != nil {
			return Rule{}, errors.New("not a constant of 16 bits")
		}
		return Rule{Take: TakeConst, Off: uint16(n)}, nil
	case strings.HasPrefix(expr, "*"):
		return ps.out(expr[1:])
	case strings.Contains(expr, "|"):
		return ps.pack(strings.Split(expr, "|"))
	case strings.Contains(expr, "+"):
		name, at, _ := strings.Cut(expr, "+")
		return ps.memory(name, at)
	case strings.Contains(expr, "*"):
		a, b, _ := strings.Cut(expr, "*")
		return ps.product(a, b)
	}
	if p, err := ps.any(expr); err == nil && p.Slot > MaxSlots && p.Type != "dim3" {
		return Rule{Take: TakeMem, Bytes: width(p), Off: p.Stack}, nil
	}
	p, err := ps.find(expr)
	if p.Type == "dim3" {
		return Rule{Take: TakeDim3, Slot: p.Slot}, err
	}
	return Rule{Take: TakeSlot, Slot: p.Slot, Bytes: width(p)}, err
}

// out compiles a value stored through a pointer: devPtr, device:int or pitched+8.
func (ps parameters) out(expr string) (Rule, error) {
	expr, typ, _ := strings.Cut(expr, ":")
	name, at, _ := strings.Cut(expr, "+")
	p, err := ps.find(name)
	u := Rule{Take: TakeOut, Slot: p.Slot, Bytes: 8}
	if typ == "int" {
		u.Bytes = 4
	} else if typ != "" {
		err = fmt.Errorf("bad type %q", typ)
	}
	if at != "" && err == nil {
		u.Off, err = offset(at)
	}
	return u, err
}

// pack compiles three successive ints, or any two.
func (ps parameters) pack(names []string) (Rule, error) {
	first, err := ps.find(names[0])
	if err != nil {
		return Rule{}, err
	}
	if len(names) == 2 {
		second, err := ps.find(names[1])
		if err == nil && (first.Type != "int" || second.Type != "int") {
			err = errors.New("needs two int parameters")
		}
		return Rule{Take: TakePair, Slot: first.Slot, Slot2: second.Slot, Bytes: 4}, err
	}
	for i, n := range names {
		p, err := ps.find(n)
		if err != nil || len(names) != 3 || p.Type != "int" || p.Slot != first.Slot+uint8(i) {
			return Rule{}, errors.New("needs two, or three int parameters in a row")
		}
	}
	return Rule{Take: TakePack3, Slot: first.Slot}, nil
}

// memoryTypes maps the type after the offset to the rule for a value in memory.
var memoryTypes = map[string]Rule{
	"": {Take: TakeMem, Bytes: 8}, "int": {Take: TakeMem, Bytes: 4},
	"dim3": {Take: TakeMemDim3}, "volume": {Take: TakeMemVolume, Bytes: 8},
}

// memory compiles a value behind a pointer, or in a struct: 32, 24:int, 0:dim3, 0:volume or
// 112*120.
func (ps parameters) memory(name, at string) (Rule, error) {
	p, err := ps.any(name)
	if err != nil {
		return Rule{}, err
	}
	if p.Slot > MaxSlots {
		return Rule{}, fmt.Errorf("%q is in no slot that can be read", name)
	}
	base := uint16(0)
	if p.Slot == 0 {
		base = p.Stack
	}
	at, typ, _ := strings.Cut(at, ":")
	first, second, mul := strings.Cut(at, "*")
	u, ok := memoryTypes[typ]
	if !ok {
		return Rule{}, fmt.Errorf("bad type %q", typ)
	}
	u.Slot = p.Slot
	if u.Off, err = offset(first); err != nil {
		return Rule{}, err
	}
	u.Off += base
	if mul {
		u.Take = TakeMemProduct
		if u.Off2, err = offset(second); err != nil {
			return Rule{}, err
		}
		u.Off2 += base
	}
	return u, nil
}

func offset(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 0, 15)
	if err != nil {
		return 0, fmt.Errorf("bad offset %q", s)
	}
	return uint16(n), nil
}

// product compiles a product of two parameters of one type.
func (ps parameters) product(a, b string) (Rule, error) {
	p, err := ps.find(a)
	if err != nil {
		return Rule{}, err
	}
	q, err := ps.find(b)
	if err != nil {
		return Rule{}, err
	}
	if p.Type != q.Type || p.Type == "dim3" {
		return Rule{}, errors.New("factors must be of one type")
	}
	return Rule{Take: TakeProduct, Slot: p.Slot, Slot2: q.Slot, Bytes: width(p)}, nil
}

// width returns the bytes of its slot that a parameter fills.
func width(p Param) uint8 {
	if p.Type == "int" {
		return 4
	}
	return 8
}
