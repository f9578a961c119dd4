package query

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"strconv"
	"strings"

	"modernc.org/sqlite/vtab"
)

// SQLColumn is a column of a table, or an argument of a function.
type SQLColumn struct {
	Name, Type string // TEXT, INTEGER or REAL
	About      string // its meaning and unit
}

// SQLTable is a virtual table, or a table-valued function if it has arguments.
type SQLTable struct {
	Name, About string
	Columns     []SQLColumn
	Args        []SQLColumn // trailing ones are optional; each may be NULL
}

// derived is a column with its value's function.
type derived[F any] struct {
	SQLColumn
	table F
}

// declared returns the columns alone.
func declared[F any](from []derived[F]) []SQLColumn {
	out := make([]SQLColumn, len(from))
	for i, c := range from {
		out[i] = c.SQLColumn
	}
	return out
}

// virtual is a virtual table with the source of its rows.
type virtual struct {
	SQLTable
	equal  []string // columns whose = is checked while rows are read
	ranges []string // columns whose <, <=, > and >= are checked while rows are read
	exact  []string // columns of equal that SQLite need not recheck
	// scan yields the requested rows, and possibly more.
	scan func(s *statement, a *scanRequest, yield func(batch) bool) error
}

// virtuals are the virtual tables.
var virtuals = []*virtual{eventsTable, waitsTable, requestsTable, opStatsTable, quantileTable, timelineTable}

// module returns the table's module name in SQLite.
func (v *virtual) module() string { return "ingero_" + v.Name }

// column returns the number of a column or argument.
func (v *virtual) column(name string) int {
	for i, c := range v.Columns {
		if c.Name == name {
			return i
		}
	}
	for i, c := range v.Args {
		if c.Name == name {
			return len(v.Columns) + i
		}
	}
	return -1
}

// declaration returns the statement that declares the columns to SQLite; arguments are hidden.
func (v *virtual) declaration() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE x(")
	for i, c := range v.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q %s", c.Name, c.Type)
	}
	for _, c := range v.Args {
		fmt.Fprintf(&b, ", %q HIDDEN", c.Name)
	}
	b.WriteString(")")
	return b.String()
}

// batch is a run of rows. It is valid until the consumer asks for the next one.
type batch interface {
	count() int
	at(row, column int) vtab.Value
	// id identifies the row, whatever plan reads it: SQLite uses it to recognize rows.
	id(row int, seed maphash.Seed) uint64
}

// term is one condition of a statement on a column.
type term struct {
	column int
	op     vtab.ConstraintOp
	value  vtab.Value
}

// scanRequest is what a statement needs of a table.
type scanRequest struct {
	v     *virtual
	terms []term
	used  uint64 // bit set of the columns that are read
}

// wants reports whether a column is read.
func (a *scanRequest) wants(name string) bool { return a.used>>min(a.v.column(name), 63)&1 != 0 }

// arg returns an argument's value, nil if there is none.
func (a *scanRequest) arg(name string) vtab.Value {
	at := a.v.column(name)
	for _, t := range a.terms {
		if t.column == at && t.op == vtab.OpEQ {
			return t.value
		}
	}
	return nil
}

// all returns all values that a column must equal.
func (a *scanRequest) all(name string) (out []vtab.Value) {
	at := a.v.column(name)
	for _, t := range a.terms {
		if t.column == at && t.op == vtab.OpEQ {
			out = append(out, t.value)
		}
	}
	return out
}

// module creates the tables of connections.
type module struct{ v *virtual }

// Create creates a connection's table.
func (m module) Create(ctx vtab.Context, args []string) (vtab.Table, error) {
	return m.Connect(ctx, args)
}

// Connect is Create.
func (m module) Connect(ctx vtab.Context, args []string) (vtab.Table, error) {
	if len(args) != 4 { // module, database, table, key
		return nil, fmt.Errorf("%d arguments", len(args))
	}
	s, err := running(args[3])
	if err != nil {
		return nil, err
	}
	return &plan{v: m.v, s: s}, ctx.Declare(m.v.declaration())
}

// plan is a connection's table.
type plan struct {
	v *virtual
	s *statement
}

// A plan's cost is the rows that are read. Reading fewer costs more than half of reading all, so
// that SQLite scans the logs once, not once for each part of an OR.
const (
	allRows   = 1e7
	leastCost = 0.6 * allRows
)

// planned are the conditions that a table can check itself: their encoding in the plan for the
// cursor, and how much they reduce the rows.
var planned = map[vtab.ConstraintOp]struct {
	code   string
	factor float64
}{
	vtab.OpEQ: {"=", 0.05}, vtab.OpGT: {">", 0.3}, vtab.OpGE: {"}", 0.3}, vtab.OpLT: {"<", 0.3}, vtab.OpLE: {"{", 0.3},
}

// BestIndex accepts the conditions that the table can check itself.
func (p *plan) BestIndex(info *vtab.IndexInfo) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%x", info.ColUsed)
	rows, cost, args := float64(allRows), float64(allRows), 0
	for i := range info.Constraints {
		c := &info.Constraints[i]
		how, known := planned[c.Op]
		if !known || c.Column < 0 {
			continue
		}
		arg := c.Column >= len(p.v.Columns)
		if !arg && !p.v.takes(c.Column, c.Op) {
			continue
		}
		if !c.Usable {
			if arg { // without arguments, the answer would differ
				cost = math.MaxFloat32
			}
			continue
		}
		c.ArgIndex = args
		c.Omit = arg || contains(p.v, p.v.exact, c.Column)
		args++
		rows = max(rows*how.factor, 1)
		if cost == allRows {
			cost = leastCost
		}
		fmt.Fprintf(&b, " %d%s", c.Column, how.code)
	}
	info.IdxStr, info.EstimatedCost, info.EstimatedRows = b.String(), cost, int64(rows)
	return nil
}

// takes reports whether a column's condition is checked while rows are read.
func (v *virtual) takes(column int, op vtab.ConstraintOp) bool {
	return op == vtab.OpEQ && contains(v, v.equal, column) || contains(v, v.ranges, column)
}

func contains(v *virtual, names []string, column int) bool {
	for _, n := range names {
		if v.column(n) == column {
			return true
		}
	}
	return false
}

// Open returns a cursor.
func (p *plan) Open() (vtab.Cursor, error) { return &cursor{plan: p}, nil }

// Disconnect does nothing: the statement outlives its tables.
func (p *plan) Disconnect() error { return nil }

// Destroy is Disconnect.
func (p *plan) Destroy() error { return nil }

// cursor reads a table's rows.
type cursor struct {
	*plan
	request scanRequest
	next    func() (batch, bool)
	stop    func()
	rows    batch // nil at the end
	at      int
}

// Filter starts reading with BestIndex's plan.
func (c *cursor) Filter(_ int, text string, values []vtab.Value) error {
	if err := c.Close(); err != nil {
		return err
	}
	a, err := parsePlan(c.v, text, values)
	if err != nil {
		return err
	}
	c.request = a
	c.next, c.stop = iter.Pull(func(yield func(batch) bool) {
		if err := c.v.scan(c.s, &c.request, yield); err != nil && c.s.err == nil {
			c.s.err = err
		}
	})
	return c.load()
}

// parsePlan decodes BestIndex's plan.
func parsePlan(v *virtual, text string, values []vtab.Value) (scanRequest, error) {
	words := strings.Fields(text)
	a := scanRequest{v: v}
	if len(words) != len(values)+1 {
		return a, fmt.Errorf("%d values for the plan %q", len(values), text)
	}
	var err error
	if a.used, err = strconv.ParseUint(words[0], 16, 64); err != nil {
		return a, err
	}
	for i, w := range words[1:] {
		t := term{value: values[i]}
		if t.column, err = strconv.Atoi(w[:len(w)-1]); err != nil {
			return a, err
		}
		for op, how := range planned {
			if how.code == w[len(w)-1:] {
				t.op = op
			}
		}
		a.terms = append(a.terms, t)
	}
	return a, nil
}

// load reads the next rows.
func (c *cursor) load() error {
	for {
		rows, more := c.next()
		if !more {
			c.rows = nil
			return c.s.err
		}
		if rows.count() > 0 {
			c.rows, c.at = rows, 0
			return nil
		}
	}
}

// Next moves to the next row.
func (c *cursor) Next() error {
	c.at++
	if c.at < c.rows.count() {
		return nil
	}
	return c.load()
}

// Eof reports whether there are no more rows.
func (c *cursor) Eof() bool { return c.rows == nil }

// Column returns a value of the row. An argument's value is the one given.
func (c *cursor) Column(i int) (vtab.Value, error) {
	if i < len(c.v.Columns) {
		return c.rows.at(c.at, i), nil
	}
	return c.request.arg(c.v.Args[i-len(c.v.Columns)].Name), nil
}

// Rowid returns the row's id.
func (c *cursor) Rowid() (int64, error) { return int64(c.rows.id(c.at, c.s.seed)), nil }

// Close ends the reading.
func (c *cursor) Close() error {
	if c.stop != nil {
		c.stop()
	}
	c.next, c.stop, c.rows = nil, nil, nil
	return nil
}

// chosen returns the sessions that a scan of a log reads, and its filter. There is none if nothing can
// match.
func (s *statement) chosen(a *scanRequest) ([]Session, Filter, error) {
	f, some := a.filter("timestamp")
	if !some {
		return nil, f, nil
	}
	sessions, err := s.r.Chosen(s.ctx, f)
	if err != nil && s.unread(f.Session, err) {
		return nil, f, nil
	}
	return sessions, f, err
}
