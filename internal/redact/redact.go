package redact

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Mode is how much of a command line is kept.
type Mode string

// The modes. Any other, including the zero value, is Safe.
const (
	Off  Mode = "off"  // nothing
	Safe Mode = "safe" // all but possible secrets
	Full Mode = "full" // everything
)

// Hidden replaces removed text.
const Hidden = "***"

// MaxLine is the maximum length of a line, in bytes.
const MaxLine = 4096

// Line joins a program's arguments to one line, its name first.
func (m Mode) Line(args []string) string {
	for len(args) > 0 && args[len(args)-1] == "" { // left by a program that renames itself
		args = args[:len(args)-1]
	}
	if m == Off {
		return ""
	}
	var b strings.Builder
	var r redactor
	for i, a := range args {
		if m != Full {
			a = r.next(a)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if a == "" || len(args) > 1 && strings.ContainsAny(a, " \t\n\"'") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		if b.WriteString(a); b.Len() > MaxLine {
			break
		}
	}
	return cut(strings.ToValidUTF8(b.String(), "?"))
}

func cut(s string) string {
	const more = "..."
	if len(s) <= MaxLine {
		return s
	}
	end := MaxLine - len(more)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// Args returns the arguments without possible secrets.
func Args(args []string) []string {
	out := make([]string, len(args))
	var r redactor
	for i, a := range args {
		out[i] = r.next(a)
	}
	return out
}

// redactor processes arguments in order.
type redactor struct {
	options []option // of the programs named so far, each once
	secret  bool     // the argument is the value of the previous one
	name    string   // the last option, if its value was the next argument and secret
}

// next returns the visible part of the next argument.
func (r *redactor) next(a string) string {
	end, open := named(a)
	another := r.another(a)
	if strings.HasPrefix(a, "-") {
		r.name = ""
		if open {
			r.name = strings.ToLower(strings.TrimRight(a, "=:"))
		}
	}
	for _, o := range r.options {
		if at, is := o.value(a); is {
			end, open = min(end, at), open || at == len(a)
		}
	}
	shown := argument(a, end)
	if r.secret || another {
		shown = Hidden
	}
	r.secret = open || r.secret && leads(a)
	for _, o := range programs[base(a)] {
		if !slices.Contains(r.options, o) {
			r.options = append(r.options, o)
		}
	}
	return shown
}

// another reports whether an argument may be one more value of the last option. That takes several if
// its name is plural, or a key's (vllm serve --api-key A B). Paths, models and numbers are not values.
func (r *redactor) another(a string) bool {
	const digits = "0123456789"
	letters := strings.Trim(a, digits)
	switch {
	case strings.HasPrefix(a, "-") || strings.ContainsAny(a, "/.") || letters == "":
		return false
	case strings.HasSuffix(r.name, "s"):
		return true
	}
	return strings.HasSuffix(r.name, "key") && len(a) >= 6 && strings.ContainsAny(a, digits)
}

// argument returns the visible part of one argument: nothing from end on, and not the arguments of
// a program within a text.
func argument(a string, end int) string {
	if at := program(a); at >= 0 {
		end = min(end, at)
	}
	shown := shapes(a[:end])
	if end < len(a) {
		shown += Hidden
	}
	return shown
}

// named returns where the value of a secret name begins in an argument, its length if there is
// none. open reports that the name ends the argument: the next argument is the value.
func named(a string) (end int, open bool) {
	for i := 0; i < len(a); {
		if !inName(a[i]) {
			i++
			continue
		}
		from := i
		for i < len(a) && inName(a[i]) {
			i++
		}
		if !isSecret(a[from:i]) {
			continue
		}
		to := i
		for to < len(a) && separates(a[to]) {
			to++
		}
		switch {
		case to == len(a) && to > i, to == len(a) && !isPath(a, from):
			return len(a), true
		case to == len(a), to == i && a[i] == '/': // a file or directory of that name
			continue
		}
		return to, false
	}
	return len(a), false
}

// isPath reports whether an argument is a path to the name at an offset.
func isPath(a string, at int) bool {
	return a[0] != '-' && strings.LastIndexByte(a[:at], '/') > 0
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// separates reports whether a byte can stand between a name and its value.
func separates(c byte) bool {
	return c <= ' ' || strings.IndexByte("=:\"'`\\])}>", c) >= 0
}

// leads reports whether a value only states the kind of the next value.
func leads(a string) bool {
	word := strings.TrimFunc(a, func(r rune) bool { return r < utf8.RuneSelf && separates(byte(r)) })
	return word == "" || schemes[strings.ToLower(word)]
}

var joined = strings.NewReplacer("-", "", "_", "", ".", "")

// isSecret reports whether a name sounds like that of a secret.
func isSecret(name string) bool {
	lower := strings.ToLower(name)
	for _, h := range harmless {
		lower = strings.ReplaceAll(lower, h, "-")
	}
	lower = counts.ReplaceAllString(lower, "${1}-")
	plain := joined.Replace(lower)
	for _, s := range anywhere {
		if strings.Contains(plain, s) {
			return true
		}
	}
	words := strings.FieldsFunc(lower, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	for _, w := range words {
		w = strings.TrimRight(w, "0123456789")
		if whole[w] {
			return true
		}
		for _, e := range ends {
			if strings.HasSuffix(w, e) {
				return true
			}
		}
	}
	return false
}

// base returns the name of a program.
func base(a string) string {
	a = strings.Trim(a, "\"'`;|&()$<> \t\n")
	return strings.TrimSuffix(strings.ToLower(a[strings.LastIndexByte(a, '/')+1:]), ".exe")
}

// program returns where the arguments of a known program begin within a text of several words, -1
// if there is none.
func program(a string) int {
	word := -1
	for i := 0; i <= len(a); i++ {
		if i < len(a) && a[i] > ' ' && strings.IndexByte("\"'`;|&()<>", a[i]) < 0 {
			if word < 0 {
				word = i
			}
			continue
		}
		if word >= 0 && i < len(a) && len(programs[base(a[word:i])]) > 0 {
			return i + 1
		}
		word = -1
	}
	return -1
}
