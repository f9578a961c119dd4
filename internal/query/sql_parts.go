package query

import (
	"slices"
	"strconv"
	"strings"
)

// MergePlan is a statement whose answers from several databases can be merged: its rows are groups,
// and all other columns are additive aggregates.
type MergePlan struct {
	SQL string // statement for each database

	items []mergeColumn
	order []mergeOrder
	limit int // -1: none
}

// mergeColumn is a column of the answer.
type mergeColumn struct {
	name string // "": the databases' name
	how  string // the aggregate, lower case; "": a grouping column
	unit string // "us", "ms" or "s": conversion of the aggregate; "": none
	q    float64
	at   int // its first column in the answers
}

// mergeOrder is a term of ORDER BY.
type mergeOrder struct {
	item int
	desc bool
}

// aggregates are the additive aggregates, by the number of columns they need.
var aggregates = map[string]int{"count": 1, "sum": 1, "total": 1, "min": 1, "max": 1, "avg": 2, "percentile": 1}

// SplitSQL splits a statement for several databases. ok is false if their answers cannot be merged,
// or if that needs more knowledge of SQL: then each answer stands alone. The statement must be one
// SELECT without subqueries, whose columns are those of GROUP BY or single aggregates, optionally
// in us(), ms() or s(). ORDER BY must name columns, LIMIT must be a number.
func SplitSQL(text string) (p *MergePlan, ok bool) {
	text, err := one(text)
	if err != nil {
		return nil, false
	}
	words := tokens(text)
	c, ok := clausesOf(words)
	if !ok {
		return nil, false
	}
	p = &MergePlan{limit: -1}
	var sent []string
	var groups []string // normal forms of the grouping items
	items := split(c.list)
	sums := false
	for _, item := range items {
		x, ask, ok := itemOf(item)
		if !ok {
			return nil, false
		}
		x.at = len(sent)
		sums = sums || x.how != ""
		sent, p.items = append(sent, ask...), append(p.items, x)
		groups = append(groups, normal(expression(item)))
	}
	names := itemNames(items)
	if !p.grouped(split(c.group), groups, names) || !sums && len(c.group) == 0 {
		return nil, false
	}
	for _, term := range split(c.order) {
		o, ok := orderOf(term, groups, names)
		if !ok {
			return nil, false
		}
		p.order = append(p.order, o)
	}
	if len(c.limit) > 0 {
		if p.limit, err = strconv.Atoi(c.limit[0]); err != nil || len(c.limit) != 1 || p.limit < 0 {
			return nil, false
		}
	}
	p.SQL = "SELECT " + strings.Join(sent, ", ") + " FROM " + strings.Join(c.rest, " ")
	if len(c.group) > 0 {
		p.number(split(c.group))
		p.SQL += " GROUP BY " + strings.Join(c.group, " ")
	}
	return p, true
}

// number replaces the numbers of columns in GROUP BY by those in the databases' answers.
func (p *MergePlan) number(group [][]string) {
	for _, term := range group {
		if n, err := strconv.Atoi(term[0]); err == nil && len(term) == 1 {
			term[0] = strconv.Itoa(p.items[n-1].at + 1)
		}
	}
}

// grouped reports whether exactly the columns without an aggregate identify a row.
func (p *MergePlan) grouped(group [][]string, forms, names []string) bool {
	by := map[int]bool{}
	for _, term := range group {
		i := itemAt(term, forms, names)
		if i < 0 || p.items[i].how != "" {
			return false
		}
		by[i] = true
	}
	for i := range p.items {
		if p.items[i].how == "" && !by[i] {
			return false
		}
	}
	return true
}

// clauses are a statement's clauses.
type clauses struct{ list, rest, group, order, limit []string }

// clausesOf splits a statement into clauses; ok is false if it has others.
func clausesOf(words []string) (c clauses, ok bool) {
	if len(words) == 0 || !strings.EqualFold(words[0], "SELECT") {
		return c, false
	}
	into, depth := &c.list, 0
	for i := 1; i < len(words); i++ {
		w := words[i]
		word := strings.ToUpper(w)
		switch {
		case w == "(":
			depth++
		case w == ")":
			depth--
		case refusedWords[word]:
			return c, false
		case depth > 0:
		case word == "FROM" && into == &c.list:
			into = &c.rest
			continue
		case (word == "GROUP" || word == "ORDER") && i+1 < len(words) && strings.EqualFold(words[i+1], "BY"):
			into = map[string]*[]string{"GROUP": &c.group, "ORDER": &c.order}[word]
			i++
			continue
		case word == "LIMIT":
			into = &c.limit
			continue
		}
		*into = append(*into, w)
	}
	return c, depth == 0 && len(c.list) > 0 && len(c.rest) > 0
}

// refusedWords occur in statements that cannot be merged.
var refusedWords = map[string]bool{"SELECT": true, "WITH": true, "UNION": true, "INTERSECT": true, "EXCEPT": true, "DISTINCT": true, "ALL": true, "HAVING": true,
	"OVER": true, "FILTER": true, "WINDOW": true, "VALUES": true, "OFFSET": true, "EXPLAIN": true, "COLLATE": true, "NULLS": true}

// itemOf parses a column, and returns what to ask for it.
func itemOf(item []string) (x mergeColumn, ask []string, ok bool) {
	expr := expression(item)
	x.name = alias(item)
	plain := strings.Join(item, " ")
	inner := expr
	if u := strings.ToLower(expr[0]); (u == "us" || u == "ms" || u == "s") && call(expr) && len(expr) > 3 && aggregates[strings.ToLower(expr[2])] > 0 && call(expr[2:len(expr)-1]) {
		x.unit, inner = u, expr[2:len(expr)-1]
	}
	name := strings.ToLower(inner[0])
	if aggregates[name] == 0 || !call(inner) {
		// A grouping column: it must not contain an aggregate.
		if x.name == "" && len(expr) > 1 && !slices.Contains(expr, ".") {
			x.name = spaced(expr)
		}
		return x, []string{plain}, !sumsUp(expr)
	}
	args := inner[2 : len(inner)-1]
	if len(args) == 0 || sumsUp(args) {
		return x, nil, false
	}
	x.how = name
	if x.name == "" {
		x.name = spaced(expr)
	}
	list := split(args)
	if len(list) == 0 {
		return x, nil, false
	}
	value := strings.Join(list[0], " ")
	switch {
	case name == "percentile":
		if len(list) != 2 || len(list[1]) != 1 {
			return x, nil, false
		}
		q, err := strconv.ParseFloat(list[1][0], 64)
		if err != nil {
			return x, nil, false
		}
		x.q, err = share(q)
		return x, []string{"sketch(" + value + ")"}, err == nil
	case len(list) != 1:
		return x, nil, false
	case name == "avg":
		return x, []string{"total(" + value + ")", "count(" + value + ")"}, true
	}
	return x, []string{name + "(" + value + ")"}, true
}

// sumsUp reports whether words contain an aggregate.
func sumsUp(words []string) bool {
	for i, w := range words[:len(words)-1] {
		w = strings.ToLower(w)
		if words[i+1] == "(" && (aggregates[w] > 0 || w == "group_concat" || w == "string_agg" || w == "sketch" || strings.HasPrefix(w, "json_group_")) {
			return true
		}
	}
	return false
}

// call reports whether words are one function call: a name, and arguments in brackets.
func call(words []string) bool {
	if len(words) < 3 || words[1] != "(" || words[len(words)-1] != ")" {
		return false
	}
	depth := 0
	for i, w := range words[1:] {
		switch w {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			return i == len(words)-2
		}
	}
	return false
}

// expression returns a column without its alias.
func expression(item []string) []string {
	if n := len(item); n > 2 && strings.EqualFold(item[n-2], "AS") {
		return item[:n-2]
	}
	return item
}

// alias returns a column's alias, "" for none.
func alias(item []string) string {
	if n := len(item); n > 2 && strings.EqualFold(item[n-2], "AS") {
		return strings.Trim(item[n-1], "\"`[]'")
	}
	return ""
}

// itemNames returns the columns' aliases in lower case.
func itemNames(items [][]string) []string {
	var out []string
	for _, item := range items {
		name := strings.ToLower(alias(item))
		if e := expression(item); len(e) > 1 && slices.ContainsFunc(e, func(w string) bool { return strings.EqualFold(w, name) }) {
			name = "" // also a column's name: only SQLite knows which one is meant
		}
		out = append(out, name)
	}
	return out
}

// itemAt finds the column of a term of GROUP BY or ORDER BY, by its number, name or expression; -1
// if there is none.
func itemAt(term []string, forms, names []string) int {
	if len(term) == 1 {
		if n, err := strconv.Atoi(term[0]); err == nil {
			if n < 1 || n > len(forms) {
				return -1
			}
			return n - 1
		}
		if i := slices.Index(names, strings.ToLower(strings.Trim(term[0], "\"`[]"))); i >= 0 && names[i] != "" {
			return i
		}
	}
	return slices.Index(forms, normal(term))
}

func orderOf(term []string, forms, names []string) (o mergeOrder, ok bool) {
	if n := len(term); n > 1 {
		switch strings.ToUpper(term[n-1]) {
		case "DESC":
			o.desc, term = true, term[:n-1]
		case "ASC":
			term = term[:n-1]
		}
	}
	o.item = itemAt(term, forms, names)
	return o, o.item >= 0
}

// split splits words at commas outside brackets.
func split(words []string) (out [][]string) {
	depth, from := 0, 0
	for i, w := range words {
		switch w {
		case "(":
			depth++
		case ")":
			depth--
		case ",":
			if depth == 0 {
				out, from = append(out, words[from:i]), i+1
			}
		}
	}
	if len(words) > 0 {
		out = append(out, words[from:])
	}
	return slices.DeleteFunc(out, func(x []string) bool { return len(x) == 0 })
}

// tokens returns a statement's words, without blanks and comments. Blanks between single characters
// do not matter to SQLite, except within operators and numbers, which tokens keeps together.
func tokens(text string) (out []string) {
	for s := skipBlank(text); s != ""; s = skipBlank(s) {
		n := tokenLen(s)
		if strings.HasPrefix(strings.ToLower(s), "x'") { // bytes
			n = 1 + tokenLen(s[1:])
		}
		if strings.ContainsRune("<>=!|-.+*/%&~0123456789", rune(s[0])) { // ->>, <=, 1.5, 1e-3
			n = operatorLen(s)
		}
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// operatorLen returns the length of the operator or number at the start of s.
func operatorLen(s string) int {
	for _, op := range []string{"->>", "->", "<=", ">=", "<>", "==", "!=", "||", "<<", ">>"} {
		if strings.HasPrefix(s, op) {
			return len(op)
		}
	}
	if s[0] >= '0' && s[0] <= '9' || s[0] == '.' && len(s) > 1 && s[1] >= '0' && s[1] <= '9' {
		n := 1
		for n < len(s) && (s[n] == '.' || s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || (s[n] == '-' || s[n] == '+') && s[n-1]|0x20 == 'e' && s[0] != '0') {
			n++
		}
		return n
	}
	return 1
}

// normal returns an expression's normal form: equal for expressions of the same column.
func normal(words []string) string {
	var b strings.Builder
	for _, w := range words {
		if w[0] != '\'' {
			w = strings.ToLower(w)
		}
		b.WriteString(w + " ")
	}
	return b.String()
}

// spaced formats an expression as a name.
func spaced(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && w != "(" && w != ")" && w != "," && w != "." && words[i-1] != "(" && words[i-1] != "." {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}
