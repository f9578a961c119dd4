package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// maxFile limits the size of a config file, in bytes. All settings need far less.
const maxFile = 1 << 20

// readFile reads the settings of one file. absent means that the file may be missing. Errors have
// type *Error; errs has all errors in the file.
func (in Inputs) readFile(name string, absent bool) (_ []assignment, there bool, errs []*Error) {
	text, err := in.readTrusted(name)
	if errors.Is(err, fs.ErrNotExist) && absent {
		return nil, false, nil
	}
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return nil, true, []*Error{e}
		}
		what, do := fmt.Sprintf("cannot read the config file: %v", err), ""
		switch {
		case errors.Is(err, fs.ErrNotExist):
			what, do = "no such config file", "correct --config or INGERO_CONFIG"
		case errors.Is(err, fs.ErrPermission):
			what, do = "you are not permitted to read the config file", "sudo chmod a+r "+name
		}
		return nil, true, []*Error{{At: name, What: what, Do: do, Err: err}}
	}
	out, errs := parseFile(name, text)
	return out, true, errs
}

// readTrusted reads a file that belongs to root, the caller or this user and is not
// world-writable. Root obeys its content, so the check is on the open file, not on a path.
func (in Inputs) readTrusted(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // do not block on a pipe
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened read-only
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	owner := int(st.Uid)
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, &Error{At: name, What: "the config file is not a regular file", Do: "name a regular file with --config"}
	case owner != 0 && owner != in.Caller && owner != in.UID:
		return nil, &Error{At: name, What: fmt.Sprintf("the config file belongs to user %d, not to you or root", owner),
			Do: "sudo chown root " + name}
	case st.Mode&unix.S_IWOTH != 0:
		return nil, &Error{At: name, What: "every user may write to the config file", Do: "chmod o-w " + name}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, &Error{At: name, What: fmt.Sprintf("the config file is larger than %d bytes", maxFile), Do: "name a config file with --config"}
	}
	return text, nil
}

// parseFile parses YAML settings strictly.
func parseFile(name string, text []byte) ([]assignment, []*Error) {
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, []*Error{syntaxError(name, err)}
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, []*Error{{At: name, What: "the config file contains a second YAML document", Do: "remove the line of three dashes", Err: err}}
	}
	p := parser{name: name, base: filepath.Dir(name), seen: map[string]int{}}
	p.mapping("", doc.Content[0])
	return p.out, p.errs
}

// syntaxError converts the decoder's "yaml: line 3: what" to "file:line: what".
func syntaxError(name string, err error) *Error {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	at := name
	if rest, ok := strings.CutPrefix(what, "line "); ok {
		if line, why, ok := strings.Cut(rest, ": "); ok {
			at, what = name+":"+line, why
		}
	}
	return &Error{At: at, What: "invalid YAML: " + what, Do: "write KEY: VALUE on each line; indent with spaces, not tabs", Err: err}
}

type parser struct {
	name, base string
	out        []assignment
	seen       map[string]int // line of each key
	errs       []*Error
}

func (p *parser) fail(e *Error) { p.errs = append(p.errs, e) }

func (p *parser) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.name, n.Line) }

func (p *parser) mapping(prefix string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // an empty file, or a section without settings
	}
	if n.Kind != yaml.MappingNode {
		p.fail(&Error{At: p.at(n), What: "expected settings here, as lines of KEY: VALUE"})
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := prefix + k.Value
		if k.Kind != yaml.ScalarNode || k.Tag != "!!str" {
			p.fail(&Error{At: p.at(k), What: "expected the name of a setting here"})
			continue
		}
		if line := p.seen[key]; line != 0 {
			p.fail(&Error{At: p.at(k), What: fmt.Sprintf("%s is already set in line %d", key, line), Do: "remove one of the two lines"})
			continue
		}
		p.seen[key] = k.Line
		switch s := find(key); {
		case s != nil && key != configKey:
			p.value(s, v)
		case isSection(key):
			p.mapping(key+".", v)
		default:
			p.fail(unknown(p.at(k), key))
		}
	}
}

func (p *parser) value(s *Setting, v *yaml.Node) {
	a := assignment{to: s, at: p.at(v), base: p.base}
	switch {
	case v.Kind == yaml.ScalarNode && v.Tag != "!!null":
		a.value = v.Value
	case v.Kind == yaml.SequenceNode && between[s.Kind()] != "":
		var words []string
		for _, item := range v.Content {
			if item.Kind != yaml.ScalarNode {
				p.fail(&Error{At: p.at(item), What: fmt.Sprintf("%s: expected a single value here", s.Key)})
				return
			}
			words = append(words, item.Value)
		}
		a.value = strings.Join(words, between[s.Kind()])
	default:
		p.fail(&Error{At: p.at(v), What: fmt.Sprintf("%s requires one value of kind %s", s.Key, s.Kind()), Do: s.Help})
		return
	}
	p.out = append(p.out, a)
}

func isSection(key string) bool {
	for i := range Settings {
		if strings.HasPrefix(Settings[i].Key, key+".") {
			return true
		}
	}
	return false
}

// unknown returns the error for an unknown key, with the most similar key as the remedy.
func unknown(at, key string) *Error {
	e := &Error{At: at, What: fmt.Sprintf("there is no setting %.80s", key), Do: "docs/reference/commands.md lists the settings"}
	best := min(max(2, len(key)/3), 5) + 1
	for i := range Settings {
		s := &Settings[i]
		if s.Key == configKey || s.Hidden {
			continue
		}
		d := distance(key, s.Key)
		if _, last, ok := strings.Cut(s.Key, "."); ok { // its name without the section
			d = min(d, distance(key, last)+1)
		}
		if d < best {
			best, e.Do = d, "did you mean "+s.Key+"?"
		}
	}
	return e
}

// distance returns the edit distance of a and b: letters to add, remove or change.
func distance(a, b string) int {
	const far = 64 // longer than any key
	if len(a) > far {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
