package symbols

import (
	"strings"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"
)

// maxDemangled bounds what is made of a name, as a power of two: what a mangled name
// of some thousand bytes says may be much longer.
const maxDemangled = 14

// Demangle returns a name as it stands in the source, with its parameters. What is no
// mangled C++ name is returned as it is.
func Demangle(name string) string {
	return demangled(name)
}

// Short returns a name for people: without parameters and result, and with template
// arguments as deep as fits into most bytes.
func Short(name string, most int) string {
	s := demangled(name, demangle.NoParams, demangle.NoEnclosingParams)
	for depth := 3; depth >= 1 && len(s) > most; depth-- {
		s = elide(s, depth)
	}
	return cut(s, most)
}

// Function returns the name of a function of a host program for people: without
// parameters, result and what compilers add to the names of parts and copies of it, with
// template arguments as deep as fits into most bytes. Names of C++ and Rust are demangled.
func Function(name string, most int) string {
	for {
		at := strings.LastIndexByte(name, '.')
		if at <= 0 || strings.Trim(name[at+1:], "0123456789") != "" {
			break
		}
		word := strings.LastIndexByte(name[:at], '.')
		if word <= 0 || !clones[name[word+1:at]] {
			break
		}
		name = name[:word]
	}
	s := name
	if strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") {
		var err error
		s, err = demangle.ToString(name, demangle.NoParams, demangle.NoEnclosingParams, demangle.NoClones, demangle.MaxLength(maxDemangled))
		if err != nil {
			s = name
		}
	}
	for depth := 3; depth >= 1 && len(s) > most; depth-- {
		s = elide(s, depth)
	}
	return cut(s, most)
}

// clones are the words by which compilers tell a part or a copy of a function from it. A
// number follows.
var clones = map[string]bool{"cold": true, "constprop": true, "isra": true, "llvm": true, "lto_priv": true, "part": true}

func demangled(name string, how ...demangle.Option) string {
	if !strings.HasPrefix(name, "_Z") {
		return name
	}
	s, err := demangle.ToString(name, append(how, demangle.NoRust, demangle.MaxLength(maxDemangled))...)
	if err != nil {
		return name
	}
	return s
}

// elide writes dots for template arguments from a depth on. An operator's name may
// have angle brackets of its own, and so may an expression in parentheses.
func elide(s string, from int) string {
	var b strings.Builder
	depth, round := 0, 0
	for i := 0; i < len(s); i++ {
		ch := s[i]
		if op := operatorAt(s, i); op > 0 {
			if depth < from {
				b.WriteString(s[i : i+op])
			}
			i += op - 1
			continue
		}
		angle := round == 0 && !(ch == '>' && i > 0 && s[i-1] == '-')
		switch {
		case ch == '(':
			round++
		case ch == ')':
			round--
		case ch == '>' && angle:
			depth--
		}
		if depth < from {
			b.WriteByte(ch)
		}
		if ch == '<' && angle {
			if depth++; depth == from {
				b.WriteString("...")
			}
		}
	}
	if depth != 0 { // it was not understood
		return s
	}
	return b.String()
}

// operatorAt returns the length of an operator's name at i, if it has angle brackets.
func operatorAt(s string, i int) int {
	const word = "operator"
	if !strings.HasPrefix(s[i:], word) {
		return 0
	}
	for _, op := range []string{"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"} {
		if strings.HasPrefix(s[i+len(word):], op) {
			return len(word) + len(op)
		}
	}
	return 0
}

// cut shortens a text that is too long still, at the beginning of a character.
func cut(s string, most int) string {
	const dots = "..."
	if len(s) <= most || most < len(dots) {
		return s
	}
	at := most - len(dots)
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + dots
}
