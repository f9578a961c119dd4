package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ingero/internal/explain"
	"ingero/internal/query"
)

// shellCommands lists the shell's commands.
var shellCommands = []struct {
	name, args, about string
	run               func(s *shell, ctx context.Context, args []string) error
}{
	{".tables", "", "list the tables, and the functions usable as tables", (*shell).tables},
	{".schema", "[TABLE]", "show the columns of one table, or of all", (*shell).schema},
	{".mode", "table|json|csv", "set the output format", (*shell).mode},
	{".help", "", "show this", nil}, // set in init, since it refers to shellCommands
	{".quit", "", "quit, like Ctrl-D", func(*shell, context.Context, []string) error { return errQuit }},
}

func init() {
	for i := range shellCommands {
		if shellCommands[i].name == ".help" {
			shellCommands[i].run = (*shell).help
		}
	}
}

// command executes a shell command.
func (s *shell) command(ctx context.Context, words []string) error {
	name := words[0]
	if name == ".exit" {
		name = ".quit"
	}
	for i := range shellCommands {
		if c := &shellCommands[i]; c.name == name {
			return c.run(s, ctx, words[1:])
		}
	}
	return usage(".help lists the commands", "no such command: %s", name)
}

func (s *shell) help(context.Context, []string) error {
	var b strings.Builder
	for _, c := range shellCommands {
		fmt.Fprintf(&b, "%-24s %s\n", strings.TrimSpace(c.name+" "+c.args), c.about)
	}
	b.WriteString("SELECT ...;              run a statement, up to its semicolon\n")
	return s.env.printf("%s", b.String())
}

func (s *shell) mode(_ context.Context, args []string) error {
	modes := map[string]output{"table": {}, "json": {json: true}, "csv": {csv: true}}
	if len(args) != 1 {
		return usage(".mode table, .mode json or .mode csv", ".mode requires one argument")
	}
	form, ok := modes[args[0]]
	if !ok {
		return usage(".mode table, .mode json or .mode csv", ".mode cannot be %q", args[0])
	}
	s.form = form
	return nil
}

// fileTables returns the tables of the file and their CREATE statements.
func (s *shell) fileTables(ctx context.Context) ([][]any, error) {
	res, err := s.r.SQL(ctx, "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY name", query.SQLLimits{})
	if err != nil {
		return nil, sqlProblem(err, s.limits.Time)
	}
	return res.Rows, nil
}

// called returns a table as a statement refers to it: with arguments if it is a function.
func called(t *query.SQLTable) string {
	var args []string
	for _, a := range t.Args {
		args = append(args, a.Name)
	}
	if len(args) == 0 {
		return t.Name
	}
	return t.Name + "(" + strings.Join(args, ", ") + ")"
}

func (s *shell) tables(ctx context.Context, _ []string) error {
	stored, err := s.fileTables(ctx)
	if err != nil {
		return err
	}
	virtual := query.SQLSchema()
	var b strings.Builder
	for i := range virtual {
		t := &virtual[i]
		about, _, _ := strings.Cut(t.About, ". ")
		fmt.Fprintf(&b, "%s\n", called(t))
		for _, l := range explain.Wrap(strings.TrimSuffix(about, ".")+".", 80-4) {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	for _, row := range stored {
		fmt.Fprintf(&b, "%v\n", row[0])
	}
	return s.env.printf("%s", b.String())
}

// described renders a table with its arguments and columns, 80 columns wide.
func described(t *query.SQLTable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", called(t))
	for _, c := range slices.Concat(t.Args, t.Columns) {
		head := fmt.Sprintf("    %-16s %-7s ", c.Name, c.Type)
		for _, l := range explain.Wrap(c.About, 80-len(head)) {
			fmt.Fprintf(&b, "%s%s\n", head, l)
			head = strings.Repeat(" ", len(head))
		}
	}
	return b.String()
}

func (s *shell) schema(ctx context.Context, args []string) error {
	stored, err := s.fileTables(ctx)
	if err != nil {
		return err
	}
	wanted := func(name string) bool { return len(args) == 0 || strings.EqualFold(args[0], name) }
	found := 0
	virtual := query.SQLSchema()
	for i := range virtual {
		t := &virtual[i]
		if !wanted(t.Name) {
			continue
		}
		found++
		if err := s.env.printf("%s\n", described(t)); err != nil {
			return err
		}
	}
	for _, row := range stored {
		name, ok := row[0].(string)
		if !ok || !wanted(name) {
			continue
		}
		found++
		for line := range strings.Lines(fmt.Sprint(row[1])) {
			if err := s.env.printf("%s\n", strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\n")); err != nil {
				return err
			}
		}
	}
	if found == 0 {
		return usage(".tables lists the tables", "no such table: %s", args[0])
	}
	return nil
}

// sqlNames holds the names that the Tab key completes.
type sqlNames struct{ tables, words []string }

// sqlWords lists the keywords of statements that read.
var sqlWords = strings.Fields(`SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET JOIN LEFT USING WITH UNION
	EXCEPT INTERSECT CASE WHEN THEN ELSE END BETWEEN LIKE GLOB EXISTS CAST OVER PARTITION VALUES EXPLAIN NULL`)

// tableFollows lists the keywords that a table name follows.
var tableFollows = map[string]bool{"from": true, "join": true}

// names returns the names of all tables, columns and functions. It skips those that it cannot
// read.
func (s *shell) names(ctx context.Context) sqlNames {
	own, builtin := query.SQLFunctions()
	n := sqlNames{words: slices.Clone(builtin)}
	stored, _ := s.fileTables(ctx)
	for _, row := range stored {
		name := fmt.Sprint(row[0])
		n.tables = append(n.tables, name)
		if res, err := s.r.SQL(ctx, fmt.Sprintf("SELECT * FROM %q LIMIT 0", name), s.limits); err == nil {
			n.words = append(n.words, res.Columns...)
		}
	}
	for _, t := range query.SQLSchema() {
		n.tables = append(n.tables, t.Name)
		for _, c := range slices.Concat(t.Columns, t.Args) {
			n.words = append(n.words, c.Name)
		}
	}
	for _, f := range own {
		n.words = append(n.words, f.Name)
	}
	for _, list := range []*[]string{&n.tables, &n.words} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return n
}

// fitting returns the completions of the word at the end of line, and the word's length.
func (n *sqlNames) fitting(line string) (found []string, length int) {
	begin := strings.LastIndexFunc(line, func(r rune) bool { return !isNameRune(r) }) + 1
	if begin > 0 && line[begin-1] == '.' && strings.TrimSpace(line[:begin-1]) == "" {
		begin--
	}
	word, before := line[begin:], strings.TrimSpace(line[:begin])
	for _, w := range n.candidates(word, before) {
		if len(w) >= len(word) && strings.EqualFold(w[:len(word)], word) {
			found = append(found, w)
		}
	}
	return found, len(word)
}

// candidates returns the words that may follow before.
func (n *sqlNames) candidates(word, before string) []string {
	switch {
	case strings.HasPrefix(word, "."):
		var out []string
		for _, c := range shellCommands {
			out = append(out, c.name)
		}
		return out
	case before == ".mode":
		return []string{"table", "json", "csv"}
	case before == ".schema", word == "", tableFollows[strings.ToLower(before[strings.LastIndexAny(before, " \t,(")+1:])]:
		return n.tables
	}
	out := slices.Concat(n.tables, n.words)
	for _, w := range sqlWords {
		if word == strings.ToLower(word) {
			w = strings.ToLower(w)
		}
		out = append(out, w)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func isNameRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// common returns the longest common prefix of words, ignoring case.
func common(words []string) string {
	out := words[0]
	for _, w := range words[1:] {
		for len(out) > 0 && (len(w) < len(out) || !strings.EqualFold(w[:len(out)], out)) {
			out = out[:len(out)-1]
		}
	}
	return out
}
