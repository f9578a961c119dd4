package query

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// queryer is the part of a connection that runs a statement.
type queryer interface {
	driver.QueryerContext
	driver.ExecerContext
	sqlite.AuthorizerRegisterer
}

// guard runs the statement inside another one that calls it as a function. The driver interrupts a
// connection while it executes, but not between single rows, so everything runs in one execution.
func (s *statement) guard(c any, key string) error {
	conn, ok := c.(queryer)
	if !ok {
		return fmt.Errorf("a connection of %T", c)
	}
	s.conn = conn
	if err := conn.RegisterAuthorizer(s.authorize); err != nil {
		return err
	}
	_, err := conn.ExecContext(s.ctx, "SELECT "+runFunction+"("+key+")", nil)
	return err
}

// query runs the statement and keeps its rows.
func (s *statement) query() (err error) {
	s.guarded = true
	rows, err := s.conn.QueryContext(context.Background(), s.text, nil) // the enclosing execution is interrupted
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out := &s.result
	out.Columns = slices.Clone(rows.Columns())
	left := s.limits.Bytes
	for {
		row := make([]driver.Value, len(out.Columns))
		if err := rows.Next(row); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if len(out.Rows) == s.limits.Rows {
			out.Cut = fmt.Sprintf("there are more than %d rows", s.limits.Rows)
			return nil
		}
		kept := make([]any, len(row))
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				v = bytes.Clone(b)
			}
			kept[i] = v
			left -= size(v)
		}
		if left < 0 {
			out.Cut = fmt.Sprintf("the rows have more than %d bytes", s.limits.Bytes)
			return nil
		}
		out.Rows = append(out.Rows, kept)
	}
}

// authorize permits actions that only read; SQLite asks during compilation. It denies everything
// that is not listed, including future actions.
func (s *statement) authorize(action sqlite.AuthorizerActionCode, one, two, _, _ string) sqlite.AuthorizerReturnCode {
	if !s.guarded {
		return sqlite.AuthorizerOK
	}
	var why *SQLError
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRecursive:
	case sqlite.AuthRead:
		if name := strings.ToLower(one); !s.tables[name] && (two != "" || reachesOut(name)) {
			why = &SQLError{What: fmt.Sprintf("table %s cannot be read", one), Do: tablesAre()}
		}
	case sqlite.AuthFunction:
		if !safeFunctions[strings.ToLower(two)] {
			why = &SQLError{What: fmt.Sprintf("function %s cannot be used", two), Do: "use the functions listed in docs/reference/schema.md"}
		}
	case sqlite.AuthPragma:
		why = &SQLError{What: "PRAGMA cannot be used", Do: onlyReads}
	case sqlite.AuthAttach, sqlite.AuthDetach:
		why = &SQLError{What: "no other database can be attached", Do: onlyReads}
	default:
		why = &SQLError{What: "the statement would change the database", Do: onlyReads}
	}
	if why == nil {
		return sqlite.AuthorizerOK
	}
	if s.denied == nil {
		s.denied = why
	}
	return sqlite.AuthorizerDeny
}

// reachesOut reports whether a table name without read columns makes SQLite create a table by
// itself. Other such names come from WITH.
func reachesOut(name string) bool {
	return strings.HasPrefix(name, "pragma_") || strings.HasPrefix(name, "sqlite_") || name == "dbstat"
}

const onlyReads = "use a read-only statement: SELECT, WITH, VALUES or EXPLAIN"

// safeFunctions are the permitted functions of SQLite, and those of this package: none reaches
// outside the statement.
var safeFunctions = func() map[string]bool {
	names := strings.Fields(`-> ->> abs avg ceil ceiling char coalesce concat concat_ws count cume_dist current_date
		current_time current_timestamp date datetime dense_rank exp first_value floor format glob group_concat hex if ifnull
		iif instr json json_array json_array_length json_error_position json_extract json_group_array
		json_group_object json_object json_patch json_pretty json_quote json_remove json_replace json_set json_insert
		json_type json_valid julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max min
		mod nth_value ntile nullif octet_length percent_rank pi pow power printf quote random randomblob rank replace round
		row_number rtrim sign sqlite_version sqrt strftime string_agg substr substring sum time timediff total trim trunc
		typeof unhex unicode unistr unixepoch unlikely upper zeroblob`)
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	for _, f := range sqlFunctions {
		out[f.Name] = true
	}
	return out
}()

// one returns the statement in a text, without anything after its semicolon. It rejects, with an
// explanation, anything but one reading statement.
func one(text string) (string, error) {
	switch {
	case len(text) > sqlText:
		return "", &SQLError{What: fmt.Sprintf("the statement has %d bytes", len(text)), Do: fmt.Sprintf("shorten it to %d bytes", sqlText)}
	case !utf8.ValidString(text):
		return "", &SQLError{What: "the statement is not valid UTF-8"}
	case strings.ContainsRune(text, 0):
		return "", &SQLError{What: "the statement contains a zero byte", Do: "remove the zero byte: SQLite would end the statement there"}
	}
	first := skipBlank(text)
	rest := first
	for rest != "" && rest[0] != ';' {
		rest = skipBlank(rest[tokenLen(rest):])
	}
	statement := text[:len(text)-len(rest)]
	for strings.HasPrefix(rest, ";") {
		rest = skipBlank(rest[1:])
	}
	if rest != "" {
		return "", &SQLError{What: "there are several statements", Do: "run one statement at a time"}
	}
	switch word := strings.ToUpper(first[:wordLen(first)]); word {
	case "SELECT", "WITH", "VALUES", "EXPLAIN":
		return statement, nil
	case "":
		return "", &SQLError{What: "the statement is empty", Do: "try SELECT op, count(*) FROM events GROUP BY op"}
	default:
		return "", &SQLError{What: word + " cannot be used", Do: onlyReads}
	}
}

// skipBlank skips white space and comments. An unterminated comment extends to the end, as in
// SQLite; comments do not nest.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\n\f\r\ufeff")
		switch {
		case strings.HasPrefix(s, "--"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
		default:
			return s
		}
	}
}

// tokenLen returns the length of the token at the start of s: a string or a quoted name, a word, or
// one character.
func tokenLen(s string) int {
	end := s[0]
	switch s[0] {
	case '\'', '"', '`':
	case '[':
		end = ']'
	default:
		_, n := utf8.DecodeRuneInString(s)
		return max(wordLen(s), n)
	}
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			continue
		}
		if end == ']' || i+1 == len(s) || s[i+1] != end { // a doubled quote is one inside
			return i + 1
		}
		i++
	}
	return len(s)
}

func wordLen(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	return n
}

// inWords converts SQLite's error about a statement to an SQLError.
func inWords(err error) error {
	var known *SQLError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &known):
		return err
	case strings.HasPrefix(err.Error(), "missing argument"), strings.HasPrefix(err.Error(), "missing named argument"): // the driver's, without a type
		return &SQLError{What: "the statement has parameters", Do: "write the values into the statement", Err: err}
	case !errors.As(err, &lite):
		return err
	}
	code := lite.Code()
	out := &SQLError{What: plainText(lite.Error()), Err: err}
	switch code & 0xff {
	case sqlite3.SQLITE_TOOBIG:
		out.What, out.Do = "a value or the statement is too large", fmt.Sprintf("keep each value under %d bytes", sqlLength)
	case sqlite3.SQLITE_NOMEM:
		out.What, out.Do = "the statement is too complex", "simplify it, or split it in two"
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL:
		out.Do = "free disk space for sorting, or set TMPDIR to a directory with more space"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return err // not the statement's fault
	}
	switch {
	case strings.HasPrefix(out.What, "no such table"):
		out.Do = tablesAre()
	case strings.HasPrefix(out.What, "no such column"), strings.HasPrefix(out.What, "no such function"):
		out.Do = "see docs/reference/schema.md for columns and functions"
	}
	return out
}

// plainText removes the driver's decoration from SQLite's message.
func plainText(s string) string {
	if _, after, ok := strings.Cut(s, "SQL logic error: "); ok {
		s = after
	}
	if i := strings.LastIndex(s, " ("); i > 0 && strings.HasSuffix(s, ")") {
		s = s[:i]
	}
	return s
}

// tablesAre names the tables, those of calls first.
func tablesAre() string {
	names := make([]string, 0, len(virtuals))
	for _, v := range virtuals {
		names = append(names, v.Name)
	}
	return "use " + strings.Join(names, ", ") + " or a table of the file, such as sessions: see docs/reference/schema.md"
}

// addNew appends the missing elements.
func addNew(to, from []string) []string {
	for _, s := range from {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}
