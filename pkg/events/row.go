package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits of a row. They are the sizes of the kernel's arrays (bpf/abi.h).
const (
	MaxArgs  = 4 // wide arguments kept per call
	MaxSlots = 9 // integer argument slots that can be read
)

// Class groups operations by what they do, whatever their source.
type Class uint8

// The classes.
const (
	ClassOther Class = iota
	ClassLaunch
	ClassMalloc
	ClassFree
	ClassMemcpy
	ClassMemset
	ClassSync
)

var classNames = [...]string{"other", "launch", "malloc", "free", "memcpy", "memset", "sync"}

// String returns the class's lower-case name.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Library is the library that a row's symbols live in.
type Library uint8

// The libraries.
const (
	LibCudart Library = iota + 1
	LibCuda
	LibNCCL
)

var libraryNames = [...]string{LibCudart: "libcudart", LibCuda: "libcuda", LibNCCL: "libnccl"}

// String returns the name without suffix, for example "libcudart".
func (l Library) String() string {
	if int(l) < len(libraryNames) && libraryNames[l] != "" {
		return libraryNames[l]
	}
	return fmt.Sprintf("library(%d)", uint8(l))
}

// Row is one traced function: its C parameters and what to keep of them.
type Row struct {
	Op    Op
	Name  string // the function's documented name
	Lib   Library
	Class Class
	// Symbols are the exported names that have these parameters, Name among
	// them where it is exported. Empty means Name alone. All that a library
	// exports are attached.
	Symbols []string
	// Params are the C parameters in order: "dst, src, count, kind int". A type
	// follows its name: int (32 bits), dim3 (two slots); none means 64 bits.
	Params string
	// Keep lists up to MaxArgs expressions whose values a call carries:
	//   count            the parameter
	//   *devPtr          the 64 bits it points to when the call returns
	//   width*height     a product
	//   gridDim          a dim3, packed by [PackDim3]
	//   gx|gy|gz         three ints, packed likewise
	//   config+32        64 bits in memory at the pointer plus 32, at entry
	//   config+0:dim3    a dim3 in memory at entry
	//   copy+112*120     a product of two 64-bit fields in memory at entry
	//   =3               a constant
	// Before it and a colon stands what the value is, see [Role]: "bytes:count".
	Keep []string
	// Tag is one more expression, of 32 bits: a kind, a direction, flags.
	Tag string
	// EntryOnly forbids a return probe: the function calls back into user code
	// that may unwind through it.
	EntryOnly bool
}

// AllSymbols returns every symbol to look for, in catalog order.
func (r *Row) AllSymbols() []string {
	if len(r.Symbols) == 0 {
		return []string{r.Name}
	}
	return r.Symbols
}

// PackDim3 packs a dim3 as the kernel does: x in the low 32 bits, y and z in 16
// bits each. CUDA's own limits (2^31-1, 65535, 65535) fit.
func PackDim3(x, y, z uint32) uint64 {
	return uint64(x) | uint64(y&0xffff)<<32 | uint64(z&0xffff)<<48
}

// UnpackDim3 is the inverse of [PackDim3].
func UnpackDim3(v uint64) (x, y, z uint32) {
	return uint32(v), uint32(v>>32) & 0xffff, uint32(v >> 48)
}

// Take says how the kernel computes one kept value. Values as in bpf/abi.h.
type Take uint8

// The ways to take a value.
const (
	TakeNone       Take = iota
	TakeSlot            // slot, masked to Bytes
	TakeConst           // Off
	TakeProduct         // slot * slot2, each masked to Bytes
	TakeOut             // *(u64 *)slot at return
	TakeDim3            // two slots from Slot
	TakePack3           // three int slots from Slot
	TakeMem             // *(slot + Off) at entry, Bytes wide
	TakeMemDim3         // a dim3 at slot + Off
	TakeMemProduct      // *(u64 *)(slot + Off) * *(u64 *)(slot + Off2)
)

// Rule is one compiled expression. Slots count from 1, as the calling
// convention hands integers out: registers first, then the stack.
type Rule struct {
	Take  Take
	Slot  uint8
	Slot2 uint8
	Bytes uint8 // 4 or 8
	Off   uint16
	Off2  uint16
}

// Param is one C parameter of a row.
type Param struct {
	Name string
	Type string // "", "int" or "dim3"
	Slot uint8  // its first slot, from 1
}

// ParamList splits Params and numbers the slots. It fails when a dim3 would lie
// half in registers and half on the stack, which no supported convention does.
func (r *Row) ParamList() ([]Param, error) {
	var out []Param
	next := uint8(1)
	if strings.TrimSpace(r.Params) == "" {
		return nil, nil
	}
	for p := range strings.SplitSeq(r.Params, ",") {
		f := strings.Fields(p)
		if len(f) == 0 || len(f) > 2 || (len(f) == 2 && f[1] != "int" && f[1] != "dim3") {
			return nil, fmt.Errorf("%s: bad parameter %q", r.Name, strings.TrimSpace(p))
		}
		q := Param{Name: f[0], Slot: next}
		next++
		if len(f) == 2 {
			q.Type = f[1]
		}
		if q.Type == "dim3" {
			if q.Slot == 6 || q.Slot == 8 {
				return nil, fmt.Errorf("%s: %s would straddle registers and stack", r.Name, q.Name)
			}
			next++
		}
		out = append(out, q)
	}
	return out, nil
}

// Rules compiles Keep, and Tag last when there is one.
func (r *Row) Rules() (keep []Rule, tag Rule, err error) {
	if len(r.Keep) > MaxArgs {
		return nil, tag, fmt.Errorf("%s keeps %d values, at most %d fit", r.Name, len(r.Keep), MaxArgs)
	}
	params, err := r.ParamList()
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

// parameters look up what an expression names.
type parameters []Param

// find returns a parameter that lies in a slot that can be read.
func (ps parameters) find(name string) (Param, error) {
	for _, p := range ps {
		if p.Name == name && p.Slot <= MaxSlots {
			return p, nil
		}
	}
	return Param{}, fmt.Errorf("no such parameter as %q", name)
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
		p, err := ps.find(expr[1:])
		return Rule{Take: TakeOut, Slot: p.Slot, Bytes: 8}, err
	case strings.Contains(expr, "|"):
		return ps.pack(strings.Split(expr, "|"))
	case strings.Contains(expr, "+"):
		name, at, _ := strings.Cut(expr, "+")
		return ps.memory(name, at)
	case strings.Contains(expr, "*"):
		a, b, _ := strings.Cut(expr, "*")
		return ps.product(a, b)
	}
	p, err := ps.find(expr)
	if p.Type == "dim3" {
		return Rule{Take: TakeDim3, Slot: p.Slot}, err
	}
	return Rule{Take: TakeSlot, Slot: p.Slot, Bytes: width(p)}, err
}

// pack compiles three ints that follow each other.
func (ps parameters) pack(names []string) (Rule, error) {
	first, err := ps.find(names[0])
	if err != nil {
		return Rule{}, err
	}
	for i, n := range names {
		p, err := ps.find(n)
		if err != nil || len(names) != 3 || p.Type != "int" || p.Slot != first.Slot+uint8(i) {
			return Rule{}, errors.New("needs three int parameters in a row")
		}
	}
	return Rule{Take: TakePack3, Slot: first.Slot}, nil
}

// memory compiles what lies behind a pointer: 32, 24:int, 0:dim3 or 112*120.
func (ps parameters) memory(name, at string) (Rule, error) {
	p, err := ps.find(name)
	if err != nil {
		return Rule{}, err
	}
	offset := func(s string) uint16 {
		n, e := strconv.ParseUint(s, 0, 16)
		if e != nil {
			err = fmt.Errorf("bad offset %q", s)
		}
		return uint16(n)
	}
	if a, b, mul := strings.Cut(at, "*"); mul {
		return Rule{Take: TakeMemProduct, Slot: p.Slot, Bytes: 8, Off: offset(a), Off2: offset(b)}, err
	}
	at, typ, _ := strings.Cut(at, ":")
	u, ok := map[string]Rule{"": {Take: TakeMem, Bytes: 8}, "int": {Take: TakeMem, Bytes: 4}, "dim3": {Take: TakeMemDim3}}[typ]
	if !ok {
		return Rule{}, fmt.Errorf("bad type %q", typ)
	}
	u.Slot, u.Off = p.Slot, offset(at)
	return u, err
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

// width is how many bytes of its slot a parameter fills.
func width(p Param) uint8 {
	if p.Type == "int" {
		return 4
	}
	return 8
}
