package explain

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// OpTable is a table of a window's operations.
type OpTable struct {
	From, To time.Time
	Database string
	// Rows are the sums; rows of the same group and operation are added up.
	Rows  []OpRow
	Label string      // key of the label that rows are split by; "": none
	Notes []string    // what a reader must know; JSON only
	Nodes []wire.Node // the queried nodes; JSON only
}

// OpRow is an operation of a group: a node, a process, or both.
type OpRow struct {
	Node string
	Comm string // of process Op.PID, which is 0 for all processes
	Op   tick.Op
	// Label is the value of the table's label; "": none.
	Label string
	// Function is the GPU function of launches, mangled, and NoFunction is the reason of a missing
	// name. Both are empty if launches are not split by function.
	Function, NoFunction string
}

// opGroup is counted as one: a process of a machine, a whole machine, or a part with one label.
type opGroup struct {
	node, comm string
	pid        uint32
	label      string
}

func (g *opGroup) title(node, key string) string {
	name := ""
	if g.pid != 0 {
		name = processName(g.comm, g.pid)
	}
	switch {
	case key != "" && g.label != "":
		name = joined(" · ", key+"="+clean(g.label), name)
	case key != "":
		name = joined(" · ", "no "+key, name)
	}
	if g.node == node { // it is in the header line
		return name
	}
	return joined(" · ", name, "node "+clean(g.node))
}

// oneNode returns the machine of all groups, or "" for several.
func oneNode(groups []groupRows) string {
	for i := range groups {
		if groups[i].node != groups[0].node {
			return ""
		}
	}
	return groups[0].node
}

// groupRows is a group with its operations, largest time first.
type groupRows struct {
	opGroup
	ops []wire.Op
	sum tick.Counts
}

// groups adds up the rows and sorts them, largest time first.
func (t *OpTable) groups() []groupRows {
	type function struct{ name, why string }
	rows := map[opGroup]map[function][]tick.Op{}
	for i := range t.Rows {
		r := &t.Rows[i]
		g := opGroup{r.Node, r.Comm, r.Op.PID, r.Label}
		if rows[g] == nil {
			rows[g] = map[function][]tick.Op{}
		}
		f := function{r.Function, r.NoFunction}
		rows[g][f] = append(rows[g][f], r.Op)
	}
	out := make([]groupRows, 0, len(rows))
	for g, functions := range rows {
		x := groupRows{opGroup: g}
		for _, f := range slices.SortedFunc(maps.Keys(functions), func(a, b function) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.why, b.why))
		}) {
			for _, o := range joinOps(functions[f]) {
				j := opOf(&o, &o.Sum, o.Dur)
				j.PID, j.SelfNS = g.pid, nil // records do not have the nested time
				j.Symbol, j.NoFunction = clean(f.name), f.why
				j.Function = clean(symbols.Demangle(f.name))
				x.ops = append(x.ops, j)
				x.sum = plus(x.sum, o.Sum)
			}
		}
		slices.SortStableFunc(x.ops, func(a, b wire.Op) int { return cmp.Compare(partsOfCalls(&b).total, partsOfCalls(&a).total) })
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b groupRows) int {
		return cmp.Or(cmp.Compare(b.sum.Total, a.sum.Total), cmp.Compare(a.node, b.node), cmp.Compare(a.pid, b.pid), cmp.Compare(a.comm, b.comm), cmp.Compare(a.label, b.label))
	})
	return out
}

// Columns of the table of operations: two spaces, the name, then these.
const (
	opNameWide  = 22
	opCallsWide = 11
	opTimeWide  = 9
)

// Operations formats a table of operations as text, 80 columns wide, with calls, total time and
// quantiles, group by group.
func Operations(t *OpTable, o Options) string {
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	groups := t.groups()
	if len(groups) == 0 {
		w.text(joined(", ", "No such calls were recorded", period(t.From, t.To, w.loc))+".", "")
		return w.String()
	}
	node := oneNode(groups)
	w.text(joined(" · ", "OPERATIONS", period(t.From, t.To, w.loc), prefixed("node ", clean(node))), "  ")
	for i := range groups {
		g := &groups[i]
		w.line("")
		outer := g.sum.Calls - g.sum.Nested
		count := plural(outer, "call")
		if g.sum.Nested > 0 {
			count += ", " + Count(g.sum.Nested) + " more nested in them"
			if outer == 0 {
				count = plural(g.sum.Nested, "call") + ", all nested in others"
			}
		}
		w.text(joined(" · ", g.title(node, t.Label), count), "  ")
		head := "  " + alignLeft("", opNameWide) + alignRight("calls", opCallsWide)
		for _, name := range []string{"total", "p50", "p95", "p99", "max"} {
			head += alignRight(name, opTimeWide)
		}
		w.line(head)
		for j := range g.ops {
			w.operation(&g.ops[j])
		}
	}
	return w.String()
}

func (w *writer) operation(j *wire.Op) {
	row := alignRight(Count(j.Calls), opCallsWide)
	total := unknown
	if j.Done > 0 {
		total = short(ns64(*j.TotalNS))
	}
	row += alignRight(total, opTimeWide)
	for _, ns := range []*int64{j.P50NS, j.P95NS, j.P99NS, j.MaxNS} {
		row += alignRight(quantileText(ns, j.QuantileError), opTimeWide)
	}
	w.named(opTitle(j), opNameWide, row)
	if j.Errors > 0 {
		w.line(fmt.Sprintf("      %s of them failed", Count(j.Errors)))
	}
}

// opTitle returns the name of an operation in a table.
func opTitle(j *wire.Op) string {
	switch {
	case j.NoFunction != "":
		return "(" + j.NoFunction + ")"
	case j.Symbol != "":
		return FunctionName(j.Symbol)
	}
	return j.Op
}

// BuildOperations returns the content of [Operations], with full precision.
func BuildOperations(t *OpTable) *wire.Operations {
	j := &wire.Operations{From: t.From.UTC(), To: t.To.UTC(), Database: t.Database, Operations: []wire.OpRow{}, Notes: []string{}, Nodes: t.Nodes}
	j.Notes = append(j.Notes, t.Notes...)
	for _, g := range t.groups() {
		for _, o := range g.ops {
			j.Operations = append(j.Operations, wire.OpRow{Node: clean(g.node), Comm: clean(g.comm), Label: clean(g.label), Op: o})
		}
	}
	return j
}

// OperationsJSON is [BuildOperations] as JSON.
func OperationsJSON(t *OpTable) ([]byte, error) {
	b, err := json.MarshalIndent(BuildOperations(t), "", "  ")
	return append(b, '\n'), err
}

// OperationsCSV is [Operations] as CSV (RFC 4180) with a header line. Durations are nanoseconds;
// unknown values are empty. A table that is split by a label has its value in a last column.
func OperationsCSV(t *OpTable) []byte {
	rows := [][]string{strings.Split("node,pid,comm,source,op,function,calls,done,errors,nested,total_ns,on_cpu_ns,runnable_ns,throttled_ns,blocked_ns,p50_ns,p95_ns,p99_ns,max_ns", ",")}
	if t.Label != "" {
		rows[0] = append(rows[0], "label")
	}
	for _, g := range t.groups() {
		pid := ""
		if g.pid != 0 {
			pid = strconv.FormatUint(uint64(g.pid), 10)
		}
		for i := range g.ops {
			o := &g.ops[i]
			row := []string{clean(g.node), pid, clean(g.comm), o.Source, o.Op, o.Function}
			if o.ThrottledNS == nil && o.Done > 0 {
				o.ThrottledNS = new(uint64)
			}
			for _, n := range []*uint64{&o.Calls, &o.Done, &o.Errors, &o.Nested, o.TotalNS, o.OnCPUNS, o.RunnableNS, o.ThrottledNS, o.BlockedNS} {
				row = append(row, numberText(n))
			}
			for _, n := range []*int64{o.P50NS, o.P95NS, o.P99NS, o.MaxNS} {
				row = append(row, numberText(n))
			}
			if t.Label != "" {
				row = append(row, clean(g.label))
			}
			rows = append(rows, row)
		}
	}
	return csvOf(rows)
}

// numberText formats a number, or "" for nil.
func numberText[T int64 | uint64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func csvOf(rows [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.WriteAll(rows) // to memory
	return b.Bytes()
}

// CallList is a list of single calls.
type CallList struct {
	From, To time.Time
	Total    uint64 // total number of calls; 0: unknown
	Slowest  bool   // the slowest calls, else the first
	Rows     []CallRow
}

// CallRow is a call with facts from outside its record.
type CallRow struct {
	Node, Session, Comm string
	Function            string // launched function, mangled; "" for none
	Call                events.Call
}

// Calls formats calls as lines of text, below a header line.
func Calls(l *CallList, o Options) string {
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	at := period(l.From, l.To, w.loc)
	if len(l.Rows) == 0 {
		w.text(joined(", ", "No such calls were recorded", at)+".", "")
		return w.String()
	}
	n, node := uint64(len(l.Rows)), ""
	which, one := plural(n, "call"), true
	if l.Slowest && l.Total > n {
		which = "The " + Count(n) + " slowest of " + plural(l.Total, "call")
	} else if l.Total > n || l.Total == 0 {
		which = "The first " + plural(n, "call")
	}
	for i := range l.Rows {
		one = one && l.Rows[i].Node == l.Rows[0].Node
	}
	if one {
		node = prefixed("node ", clean(l.Rows[0].Node))
	}
	w.line(joined(" · ", which, at, node)) // the calls are wider anyway
	for i := range l.Rows {
		r := &l.Rows[i]
		if !one {
			w.WriteString(clean(r.Node) + "  ")
		}
		w.line(string(AppendCallLine(nil, &r.Call, r.Comm, FunctionName(r.Function), w.loc)))
	}
	return w.String()
}

// CallsJSON formats each call as one line of JSON: a [wire.CallLine] with node and session.
func CallsJSON(l *CallList) []byte {
	var b []byte
	for i := range l.Rows {
		r := &l.Rows[i]
		b = AppendCallJSON(b, &r.Call, r.Comm, r.Function)
		b = append(b[:len(b)-1], `,"node":`...)
		b = append(appendString(b, r.Node), `,"session":`...)
		b = append(appendString(b, r.Session), '}', '\n')
	}
	return b
}

// CallsCSV formats calls as CSV (RFC 4180) with a header line. Times are RFC 3339 in UTC, durations
// nanoseconds; unknown values are empty.
func CallsCSV(l *CallList) []byte {
	rows := [][]string{strings.Split("timestamp,node,session,pid,tid,comm,source,op,parent,weight,duration_ns,on_cpu_ns,runnable_ns,throttled_ns,blocked_ns,result,error", ",")}
	for i := range l.Rows {
		r := &l.Rows[i]
		c := &r.Call
		parent := ""
		if c.Parent != 0 {
			parent = c.Parent.String()
		}
		row := []string{time.Unix(0, c.Start).UTC().Format(time.RFC3339Nano), clean(r.Node), clean(r.Session),
			fmt.Sprint(c.PID), fmt.Sprint(c.TID), clean(r.Comm), c.Op.Source().String(), c.Op.String(), parent, fmt.Sprint(c.Weight)}
		rows = append(rows, append(row, callCells(c)...))
	}
	return csvOf(rows)
}

// callCells returns the cells of a call whose return was seen.
func callCells(c *events.Call) []string {
	out := make([]string, 7)
	if c.Flags&events.CallUnmeasured != 0 {
		return out
	}
	parts := []*int64{&c.Duration, &c.OnCPU, &c.Runnable, &c.Throttled, &c.Blocked}
	if c.Flags&events.CallLedgerPartial != 0 {
		parts[1], parts[4] = nil, nil
	}
	for i, p := range parts {
		out[i] = numberText(p)
	}
	out[5] = fmt.Sprint(c.Result)
	if c.Flags&events.CallFailed != 0 {
		out[6] = events.ErrorName(c.Op, c.Result)
	}
	return out
}
