package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command line in the documents and the help texts parses: the command, its flags and their
// values.
func TestCommandLinesOfDocuments(t *testing.T) {
	files := []string{"../../README.md"}
	for _, pages := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pages)
		if err != nil || len(found) < 3 {
			t.Fatalf("%d documents in %s: %v", len(found), pages, err)
		}
		files = append(files, found...)
	}
	optional := map[string]bool{}
	addOptional((&Env{Getenv: func(string) string { return "" }}).root(), optional)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range shownLines(string(text)) {
				if err := understood(line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			for _, m := range inLine.FindAllStringSubmatch(string(text), -1) {
				if err := exists(strings.Fields(m[1])); err != nil {
					t.Errorf("%s: %v", m[1], err)
				}
			}
			for _, m := range flagInLine.FindAllStringSubmatch(string(text), -1) {
				if optional[m[1]] {
					t.Errorf("--%s %s: write --%[1]s=%[2]s", m[1], m[2])
				}
			}
		})
	}
}

// The parts of reports shown in the documents are parts of the demo's report.
func TestPagesShowTheDemo(t *testing.T) {
	code, stdout, stderr := command(t, nil, nil, "demo", "incident", "--no-gpu")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	printed := map[string]bool{}
	for line := range strings.Lines(stdout) {
		printed[strings.TrimSpace(line)] = true
	}
	part := regexp.MustCompile(`^ +(INCIDENT REPORT|\[HIGH\]|Timeline|Not it|WHERE THE TIME WENT)`)
	for _, page := range []string{"../../README.md", "../../docs/start/reading-reports.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for block := range strings.SplitSeq(string(text), "\n\n") {
			if !part.MatchString(block) {
				continue
			}
			for line := range strings.Lines(block) {
				lines++
				if line = strings.TrimSpace(line); !printed[line] {
					t.Errorf("%s: the demo does not print %q", page, line)
				}
			}
		}
		if lines < 10 {
			t.Errorf("%s has %d lines of the report", page, lines)
		}
	}
}

// Every command line in the documents of 0.9 parses, except those that docs/compatibility.md
// lists as rejected.
func TestCommandLinesOf09(t *testing.T) {
	text, err := os.ReadFile("testdata/v09.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		count++
		t.Run(line, func(t *testing.T) {
			if err := understood(line); err != nil {
				t.Error(err)
			}
		})
	}
	if count < 80 {
		t.Errorf("only %d command lines", count)
	}
}

var (
	inBlock = regexp.MustCompile(`^(?: {4}|\t)?((?:sudo )?ingero .*?)\s*$`)
	inLine  = regexp.MustCompile("`(?:sudo )?ingero ([^`]+)`")
	// flagInLine is a flag with a value in the next word.
	flagInLine = regexp.MustCompile("`--([a-z0-9-]+)\\s+([^-`\\s][^`\\s]*)")
	aComment   = regexp.MustCompile(`\s{2,}.*$|\s#.*$`)
	aUsage     = regexp.MustCompile(`\[\w|\w\|\w`)
	before     = regexp.MustCompile(`^.*?\bingero `)
	behind     = regexp.MustCompile(`\s(?:\||&&|>|;|2>|<).*$`)
)

// shownLines returns the command lines in Markdown's code blocks, without usage lines.
func shownLines(text string) (all []string) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		m := inBlock.FindStringSubmatch(line)
		if m == nil || !fenced && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "\t") {
			continue
		}
		if line := aComment.ReplaceAllString(m[1], ""); !aUsage.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// exists returns an error if a mentioned command or flag does not exist.
func exists(mentioned []string) error {
	e := &Env{Getenv: func(string) string { return "" }}
	c := e.root()
	for _, word := range mentioned {
		if name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "="); strings.HasPrefix(word, "--") {
			c.InitDefaultHelpFlag()
			if name = strings.TrimRight(name, ",.;:"); name != "" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
				return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
			}
			continue
		}
		if sub, _, err := c.Find([]string{strings.Trim(word, ",.;")}); err == nil {
			c = sub
		} else if c == c.Root() {
			return err
		}
	}
	return nil
}

// addOptional adds the flags of a command and its subcommands. It maps a flag to true if each
// command accepts it without a value: then a value must be joined with "=".
func addOptional(c *cobra.Command, all map[string]bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		optional, known := all[f.Name]
		all[f.Name] = f.NoOptDefVal != "" && (optional || !known)
	})
	for _, sub := range c.Commands() {
		addOptional(sub, all)
	}
}

// understood returns an error if a command line does not parse. It does not run the command.
func understood(line string) error {
	line = behind.ReplaceAllString(line, "")
	args, err := words(before.ReplaceAllString(line, ""))
	if err != nil {
		return err
	}
	e := &Env{Getenv: func(string) string { return "" }}
	c, rest, err := e.root().Find(args)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	if err := c.ParseFlags(rest); err != nil && err != pflag.ErrHelp {
		return err
	}
	if given := c.Flags().Args(); len(given) > 0 {
		return c.ValidateArgs(given)
	}
	return nil
}

// words splits a command line as a shell does.
func words(line string) (all []string, err error) {
	var word strings.Builder
	var quote rune
	open := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case r == ' ':
			if open {
				all = append(all, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is left open in %q", line)
	}
	if open {
		all = append(all, word.String())
	}
	return all, nil
}
