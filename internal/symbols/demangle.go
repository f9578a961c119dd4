package symbols

import (
	"strings"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"
)

// maxDemangled bounds a demangled name, as a power of two: some thousand mangled bytes may expand
// to much more.
const maxDemangled = 14

// Demangle returns the source form of a mangled C++ name, with its parameters. It returns any other
// name unchanged.
func Demangle(name string) string {
	return demangled(name)
}

// Short returns a readable name: without parameters and result, and with template arguments nested
// as deep as fits into most bytes.
func Short(name string, most int) string {
	s := demangled(name, demangle.NoParams, demangle.NoEnclosingParams)
	for depth := 3; depth >= 1 && len(s) > most; depth-- {
		s = elide(s, depth)
	}
	return cut(s, most)
}

// Function returns the readable name of a host function: without parameters, result and compiler
// suffixes of parts and clones, and with template arguments nested as deep as fits into most bytes.
// It demangles C++ and Rust names.
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

// clones are the suffixes of parts and clones that compilers make of a function. A number follows.
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

// elide replaces template arguments from a depth on by dots. Operator names and parenthesized
// expressions may have angle brackets of their own.
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
	if depth != 0 { // unbalanced: leave it alone
		return s
	}
	return b.String()
}

// operatorAt returns the length of an operator's name at i if it has angle brackets.
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

// cut shortens a text that is still too long, at the beginning of a character.
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
