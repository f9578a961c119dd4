package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// maxWords is the maximum number of words in a sentence.
const maxWords = 25

// phrase is a wording that docs/design/style.md advises against.
type phrase struct {
	is      *regexp.Regexp // a space matches any white space
	bad     string         // an example
	instead string         // the example in plain words
}

var phrases = []phrase{
	row(`(that|those) which`, "that which the kernel counts", "the kernel's counts"),
	row(`who asks`, "a token for who asks", "a token for network clients"),
	row(`whoever`, "whoever answers gets the token", "any server that answers gets the token"),
	row(`(can|cannot|could not|to) be had`, "the clock cannot be had", "the clock is not available"),
	row(`(is|are|was|were) told (of|by|to|nothing|that|when|if|how|what|with)`, "the manager is told when it ends", "ingero notifies the manager at the end"),
	row(`(is|are|was|were) said`, "how many are hidden is said", "the footer counts hidden causes"),
	row(`tells? of`, "tell of machines with another clock", "warn about machines with another clock"),
	row(`of which (a|an|there)`, "calls, of which a log keeps ten", "calls; a log keeps ten of them"),
	row(`(there|where)(of|upon|in|by)`, "records, thereof ten lost", "records, ten of them lost"),
	row(`so many`, "after so many ticks", "after ten ticks"),
	row(`as (it was|they were) (given|named|said|told)`, "the address as it was given", "the given address"),
	row(`not \w+ any more`, "the calls are not kept any more", "the calls were deleted"),
	row(`what (there is|is of)`, "what there is of calls", "the recorded calls"),
	row(`the (gravest|dearest)`, "the gravest cause", "the most severe cause"),
	row(`dearer`, "a dearer probe", "a more expensive probe"),
	row(`(mostly )?since what`, "fails, mostly since what it copies is not valid", "fails, usually because the copy is invalid"),
	row(`of one's own`, "a statement of one's own", "your own statement"),
	row(`ever new`, "fails in ever new ways", "fails with a different error each time"),
	row(`(finds?|found) no room`, "records found no room", "records dropped: ring buffer full"),
}

// row makes a row of phrases.
func row(pattern, bad, instead string) phrase {
	return phrase{regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(pattern, " ", `\s+`) + `\b`), bad, instead}
}

// idleSubject matches commit subjects that do not say what changes.
var idleSubject = regexp.MustCompile(`(?i)(^|: )(all )?together\b|\btogether$|\bwith the other parts\b`)

// subject checks the subject of a commit.
func subject(text string) []string {
	if m := idleSubject.FindString(text); m != "" {
		return []string{fmt.Sprintf("the commit subject %q does not say what changes: %q", text, m)}
	}
	return nil
}

// dialect finds phrases in the texts of a file.
func dialect(f *file) []string {
	var found []string
	for _, p := range prose(f) {
		for i := range phrases {
			for _, at := range phrases[i].is.FindAllStringIndex(p.text, -1) {
				line := p.line + strings.Count(p.text[:at[0]], "\n")
				found = append(found, fmt.Sprintf("%d: %q: see docs/design/style.md; for example %q, not %q",
					line, p.text[at[0]:at[1]], phrases[i].instead, phrases[i].bad))
			}
		}
	}
	return found
}

// opening matches the title of a page, comments, and the first words.
var opening = regexp.MustCompile(`^# .*\n\s*(<!--[^>]*-->\s*)?For \w`)

// readers checks that a page of the docs begins by saying who it is for.
func readers(f *file) []string {
	if strings.HasPrefix(f.path, "docs/") && page.MatchString(f.path) && !opening.MatchString(f.text) {
		return []string{"1: the page does not begin with the readers it is for: \"For people who ...\""}
	}
	return nil
}

// passage is a text that people read, and the line where it begins.
type passage struct {
	line int
	text string
}

var (
	page = regexp.MustCompile(`^(docs/.*|[^/]*)\.md$`)
	// styleGuide quotes bad examples.
	styleGuide = "docs/design/style.md"
	// program matches the directories whose string literals users see.
	program = regexp.MustCompile(`^(cmd|internal|pkg)/`)
)

// prose returns the text of a page, or the comments and string literals of a Go file.
func prose(f *file) []passage {
	if page.MatchString(f.path) && f.path != styleGuide {
		return []passage{{1, f.text}}
	}
	set, parsed := parseGo(f)
	if parsed == nil {
		return nil
	}
	line := func(p token.Pos) int { return set.Position(p).Line }
	var out []passage
	for _, group := range parsed.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, strings.TrimPrefix(c.Text, "//"))
		}
		out = append(out, passage{line(group.Pos()), strings.Join(lines, "\n")})
	}
	if program.MatchString(f.path) && !testFile.MatchString(f.path) {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				out = append(out, passage{line(l.Pos()), literal(l)})
			}
			return true
		})
	}
	return out
}

// parseGo returns nil for a file that is not Go, or has errors, which formatted reports.
func parseGo(f *file) (*token.FileSet, *ast.File) {
	if path.Ext(f.path) != ".go" {
		return nil, nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil
	}
	return set, parsed
}

// literal returns the text of string literals, also of a sum of them. The text is empty for other
// expressions.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?](\s|$)|\n`)
	helpCall    = regexp.MustCompile(`Var(P|PF)?$`)
)

// sentences finds long sentences in flag help (fields named Help, and calls that define a flag) and
// in error texts (fmt.Errorf, errors.New).
func sentences(f *file) []string {
	set, parsed := parseGo(f)
	if parsed == nil || !program.MatchString(f.path) || testFile.MatchString(f.path) {
		return nil
	}
	var found []string
	check := func(e ast.Expr) {
		for _, s := range sentenceEnd.Split(literal(e), -1) {
			if n := len(strings.Fields(s)); n > maxWords {
				found = append(found, fmt.Sprintf("%d: a sentence of %d words, more than %d: %.40q...", set.Position(e.Pos()).Line, n, maxWords, s))
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Help" {
				check(n.Value)
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && (isError(called) || helpCall.MatchString(called.Sel.Name)) {
				for _, e := range n.Args {
					check(e)
				}
			}
		}
		return true
	})
	return found
}

// isError reports whether an expression is fmt.Errorf or errors.New.
func isError(e *ast.SelectorExpr) bool {
	pkg, ok := e.X.(*ast.Ident)
	return ok && (pkg.Name == "fmt" && e.Sel.Name == "Errorf" || pkg.Name == "errors" && e.Sel.Name == "New")
}
