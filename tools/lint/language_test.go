package main

import (
	"strings"
	"testing"
)

// Each phrase is found in a page, in a comment and in a text for users. Its plain form is not.
func TestPhrases(t *testing.T) {
	places := map[string]func(text string) *file{
		"page": func(text string) *file { return &file{"docs/guides/a.md", "# A\n\n" + text + "\n"} },
		"broken line": func(text string) *file {
			return &file{"README.md", "A\n\n" + strings.ReplaceAll(text, " ", "\n") + "\n"}
		},
		"comment": func(text string) *file { return &file{"internal/a/a.go", "package a\n\n// " + text + ".\n"} },
		"test":    func(text string) *file { return &file{"test/a/a_test.go", "package a\n\n// " + text + ".\n"} },
		"two lines": func(text string) *file {
			return &file{"internal/a/a.go", "package a\n\n// " + strings.ReplaceAll(text, " ", "\n// ") + ".\n"}
		},
		"user's text":  func(text string) *file { return &file{"internal/cli/a.go", "package a\n\nvar x = \"" + text + "\"\n"} },
		"raw literals": func(text string) *file { return &file{"cmd/a/a.go", "package a\n\nvar x = `" + text + "`\n"} },
	}
	for i := range phrases {
		p := &phrases[i]
		for name, in := range places {
			if got := dialect(in(p.bad)); len(got) != 1 {
				t.Errorf("%s, %q: got %q, want one finding", name, p.bad, got)
			}
			if got := dialect(in(p.instead)); got != nil {
				t.Errorf("%s, %q: got %q, want none", name, p.instead, got)
			}
		}
	}
}

// Phrases are not searched where they are quoted or not seen by users.
func TestPhrasesElsewhere(t *testing.T) {
	for _, f := range []file{
		{"docs/design/style.md", "who asks\n"},
		{"test/a/a.go", "package a\n\nvar x = \"who asks\"\n"},
		{"internal/a/a_test.go", "package a\n\nvar x = \"who asks\"\n"},
		{"internal/a/a.go", "package a\n\nvar whoAsks = 1\n"},
		{"internal/a/a.txt", "who asks\n"},
	} {
		if got := dialect(&f); got != nil {
			t.Errorf("%s: got %q, want none", f.path, got)
		}
	}
}

// A finding has the line of the phrase.
func TestPhraseLine(t *testing.T) {
	f := &file{"internal/a/a.go", "package a\n\n// A\n// client, or who\n// asks.\n"}
	if got := dialect(f); len(got) != 1 || !strings.HasPrefix(got[0], "4: ") {
		t.Errorf("got %q, want line 4", got)
	}
}

// A page of the docs begins with the readers it is for.
func TestReaders(t *testing.T) {
	for _, tt := range []struct {
		path, text string
		want       int
	}{
		{"docs/guides/a.md", "# A\n\nFor people who use A: how to.\n", 0},
		{"docs/reference/a.md", "# A\n\n<!-- Generated from a by make docs. -->\n\nFor people who use A: how to.\n", 0},
		{"docs/a.md", "# A\n\nHow to use A.\n", 1},
		{"docs/a.md", "# A\n\nA is for people who use B. For people who use A: how to.\n", 1},
		{"README.md", "# A\n\nHow to use A.\n", 0},
		{"docs/a.json", "{}\n", 0},
	} {
		if got := readers(&file{tt.path, tt.text}); len(got) != tt.want {
			t.Errorf("%s, %q: got %q, want %d findings", tt.path, tt.text, got, tt.want)
		}
	}
}

// Sentences of flag help and of errors have at most 25 words.
func TestSentences(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"help", `var x = T{Help: "` + words(25) + `"}`, 0},
		{"long help", `var x = T{Help: "` + words(26) + `"}`, 1},
		{"two sentences", `var x = T{Help: "` + words(20) + ". " + words(20) + `"}`, 0},
		{"another field", `var x = T{Text: "` + words(26) + `"}`, 0},
		{"flag", `func f() { c.Flags().BoolVar(&x, "name", false, "` + words(26) + `") }`, 1},
		{"error", `var x = fmt.Errorf("` + words(25) + `", 1)`, 0},
		{"long error", `var x = fmt.Errorf("` + words(26) + `", 1)`, 1},
		{"error without arguments", `var x = errors.New("` + words(26) + `")`, 1},
		{"sum", `var x = errors.New("` + words(13) + ` " + "` + words(13) + `")`, 1},
		{"another call", `var x = big.New("` + words(26) + `")`, 0},
	} {
		if got := sentences(&file{"internal/a/a.go", "package a\n\n" + tt.text + "\n"}); len(got) != tt.want {
			t.Errorf("%s: got %q, want %d findings", tt.name, got, tt.want)
		}
	}
	if got := sentences(&file{"internal/a/a_test.go", "package a\n\nvar x = errors.New(\"" + words(26) + "\")\n"}); got != nil {
		t.Errorf("in a test: got %q, want none", got)
	}
}

// A subject that says nothing about the change is found.
func TestSubject(t *testing.T) {
	for text, want := range map[string]int{
		"all: together":                                         1,
		"all together":                                          1,
		"dashboard: with the other parts":                       1,
		"docs: pages and code together":                         1,
		"query: several nodes answer at once":                   0,
		"store: a wait is kept together with its holder's line": 0,
	} {
		if got := subject(text); len(got) != want {
			t.Errorf("%q: got %q, want %d findings", text, got, want)
		}
	}
}
