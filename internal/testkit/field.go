package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// Fact is something that a real machine showed, and the correct result: a row of a file of facts,
// testdata/field/*.tsv, as docs/guides/field.md describes it.
type Fact struct {
	At     string // file and line
	Source string // where to look it up
	Input  string
	Want   []Want
}

// Want is one expected value of a fact.
type Want struct {
	Name, Value string
	Contains    bool // the value is only a part: "name~value"
}

// None is the value of what must be unknown.
const None = "-"

// sources matches a source: an address, or a repository with a thread or a path.
var sources = regexp.MustCompile(`^(?:https?://\S+|[\w.-]+/[\w.-]+(?:#\d+|:\S+))$`)

// Facts reads a file below testdata/field of the test's package. A malformed row fails the test.
func Facts(t testing.TB, name string) []Fact {
	t.Helper()
	path := filepath.Join("testdata", "field", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := ParseFacts(path, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// ParseFacts parses the text of a file of facts.
func ParseFacts(path, text string) (out []Fact, err error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf(`%s: not UTF-8; write other bytes as \xNN`, path)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") || line == "source\tinput\texpectation" {
			continue
		}
		f := Fact{At: fmt.Sprintf("%s:%d", filepath.Base(path), n)}
		columns := strings.Split(line, "\t")
		if len(columns) != 3 {
			return nil, fmt.Errorf("%s: %d columns, want 3: source, input and expectation", f.At, len(columns))
		}
		if f.Source = columns[0]; !sources.MatchString(f.Source) {
			return nil, fmt.Errorf("%s: %q is no source: write an address, owner/repository#number or owner/repository:path", f.At, f.Source)
		}
		if f.Input, err = unescape(columns[1]); err == nil {
			f.Want, err = wants(columns[2])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.At, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// unescape undoes \t, \n, \\ and \xNN.
func unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return "", fmt.Errorf(`a lone \ at the end: write \\`)
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case '\\':
			b.WriteByte('\\')
		case 'x':
			v, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8)
			if err != nil || i+2 >= len(s) {
				return "", fmt.Errorf(`\x without two hexadecimal digits`)
			}
			b.WriteByte(byte(v))
			i += 2
		default:
			return "", fmt.Errorf(`\%c is unknown: there are \t, \n, \\ and \xNN`, s[i])
		}
	}
	return b.String(), nil
}

// word matches one expectation: name=value or name~value, with quotes around a value with spaces.
var word = regexp.MustCompile(`^([a-z_]+)([=~])("(?:[^"\\]|\\.)*"|[^ "]\S*)(?: +|$)`)

func wants(s string) (out []Want, err error) {
	for s != "" {
		m := word.FindStringSubmatch(s)
		if m == nil {
			return nil, fmt.Errorf("%q is no expectation: write name=value or name~part", s)
		}
		w := Want{Name: m[1], Value: m[3], Contains: m[2] == "~"}
		if strings.HasPrefix(w.Value, `"`) {
			if w.Value, err = strconv.Unquote(w.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", m[3], err)
			}
		}
		out, s = append(out, w), s[len(m[0]):]
	}
	if out == nil {
		return nil, fmt.Errorf("expects nothing")
	}
	return out, nil
}

// Check compares the result for a fact's input with the expectations. got has a value for each name
// that a fact may use, "" if unknown.
func (f *Fact) Check(t testing.TB, got map[string]string) {
	t.Helper()
	for _, w := range f.Want {
		value, known := got[w.Name]
		want := w.Value
		if want == None {
			want = ""
		}
		switch {
		case !known:
			t.Errorf("%s: no fact of this file can expect %q", f.At, w.Name)
		case w.Contains && !strings.Contains(value, want):
			t.Errorf("%s (%s): %s is %q, want %q in it\n  %q", f.At, f.Source, w.Name, value, want, f.Input)
		case !w.Contains && value != want:
			t.Errorf("%s (%s): %s is %q, want %q\n  %q", f.At, f.Source, w.Name, value, want, f.Input)
		}
	}
}
