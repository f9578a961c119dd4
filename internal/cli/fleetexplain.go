package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/fleet"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// explainNodes reports what slowed the jobs on other nodes. For jobs that span several nodes,
// it also reports which rank the others waited for.
func (e *Env) explainNodes(c *cobra.Command, s *config.Config, o *explainOptions) error {
	if err := notWithNodes(c, "run ingero on the node itself", "last", "anew", "per-process", "label"); err != nil {
		return err
	}
	limit, err := o.limit()
	if err != nil {
		return err
	}
	w, err := o.window(e.now(o.utc))
	if err != nil {
		return err
	}
	ctx := c.Context()
	g, err := e.gather(ctx, s)
	if err != nil {
		return err
	}
	defer g.Close()
	params := o.params()
	params.Set("zone", zoneParam(e.zone(o.utc), e.now(o.utc)))
	reports, problems := g.Reports(ctx, params, w.from, w.to)
	g.add(problems)
	if len(reports) == 0 {
		return g.noAnswer()
	}
	params.Del("zone")
	groups, problems := g.Collectives(ctx, params, w.from, w.to)
	for i := range problems {
		if !slices.ContainsFunc(g.problems, func(p fleet.Problem) bool { return p.Node == problems[i].Node }) {
			g.problems = append(g.problems, problems[i])
		}
	}
	if o.json {
		err = e.fleetJSON(g, reports, groups)
	} else {
		err = e.fleetText(g, reports, groups, e.zone(o.utc))
	}
	return cmp.Or(err, failOn(reports, limit))
}

// failOn returns exitFound if a chain's severity is limit or more.
func failOn(reports []fleet.Report, limit tick.Severity) error {
	for i := range reports {
		for _, c := range reports[i].Chains {
			if s, ok := tick.ParseSeverity(c.Severity); ok && limit > 0 && s >= limit {
				return exitCode(exitFound)
			}
		}
	}
	return nil
}

// fleetText prints a summary of all nodes, the communicators, and then each node's report,
// most severe first.
func (e *Env) fleetText(g *nodeAnswers, reports []fleet.Report, groups []fleet.Group, zone *time.Location) error {
	var b strings.Builder
	slices.SortStableFunc(reports, func(a, b fleet.Report) int { return cmp.Compare(weight(&b), weight(&a)) })
	var quiet []string
	chains, hit := 0, 0
	for i := range reports {
		r := &reports[i]
		switch {
		case len(r.Chains)+r.Faults > 0:
			chains, hit = chains+len(r.Chains), hit+1
		case len(r.Unexplained) == 0:
			quiet = append(quiet, r.Name)
		}
	}
	fmt.Fprintf(&b, "FLEET REPORT - %s found on %d of %s\n", counted(chains, "causal chain"), hit, counted(g.requested, "machine"))
	for i := range reports {
		for _, c := range reports[i].Chains {
			line := fmt.Sprintf("[%s] %s · %s (%d) lost %s: %s", c.Severity, reports[i].Name, c.Comm, c.PID, explain.Duration(c.LostNS), c.Headline)
			hanging(&b, "  ", line)
		}
	}
	for i := range reports {
		for _, text := range reports[i].Unexplained {
			hanging(&b, "  ", reports[i].Name+" · "+text)
		}
	}
	if len(quiet) > 0 {
		hanging(&b, "", "Nothing slowed the jobs of "+strings.Join(quiet, ", ")+".")
	}
	for i := range groups {
		groupText(&b, &groups[i], zone)
	}
	for i := range reports {
		if r := &reports[i]; len(r.Chains)+r.Faults+len(r.Unexplained) > 0 {
			fmt.Fprintf(&b, "\n=== %s (%s)\n\n%s\n", r.Name, r.Address, strings.TrimRight(r.Text, "\n"))
		}
	}
	if err := e.printf("%s", b.String()); err != nil {
		return err
	}
	g.printWarnings()
	return nil
}

// weight returns a report's sort key: its highest severity, lost time and faults.
func weight(r *fleet.Report) (n int64) {
	for _, c := range r.Chains {
		s, _ := tick.ParseSeverity(c.Severity)
		n = max(n, int64(s)<<56+min(c.LostNS, 1<<55))
	}
	return n + int64(r.Faults)
}

// hanging writes text, wrapped to 80 columns, with continuation lines indented by 4.
func hanging(b *strings.Builder, in, text string) {
	for i, l := range explain.Wrap(oneLine(text), 80-len(in)-4) {
		if i > 0 {
			l = "    " + l
		}
		b.WriteString(in + l + "\n")
	}
}

// groupText describes a communicator whose ranks are on several nodes, or that has absent or
// late ranks.
func groupText(b *strings.Builder, g *fleet.Group, zone *time.Location) {
	nodes := map[string]bool{}
	for i := range g.Members {
		nodes[g.Members[i].Node] = true
	}
	if len(nodes) < 2 && len(g.Absent)+len(g.Late) == 0 {
		return
	}
	size := fmt.Sprintf("%d ranks", g.Ranks)
	if g.Ranks == 0 {
		size = "ranks"
	}
	fmt.Fprintf(b, "\nCOMMUNICATOR %.8s of %s · %d seen on %s\n", g.Comm, size, len(g.Members), counted(len(nodes), "machine"))
	if len(g.Unseen) > 0 {
		hanging(b, "  ", "No information about "+ranks(g.Unseen)+": not on a node that answered, or not traced.")
	}
	for i := range g.Absent {
		a := &g.Absent[i]
		if i == 0 {
			var in []int32
			for _, m := range a.Entered {
				in = append(in, m.Rank.Rank)
			}
			verb := "it since "
			if len(in) == 1 {
				verb = "it at "
			}
			hanging(b, "  ", fmt.Sprintf("%s #%d: %s entered %s%s.", cmp.Or(a.Op, "collective"), a.Seq, ranks(in), verb, a.Since.In(zone).Format("15:04:05.000")))
		}
		line := fmt.Sprintf("after %s, %s has not entered it: %s (%d) on %s, which has entered %s", explain.Duration(int64(a.For)), rankText(a.Rank.Rank), a.Name, a.PID, a.Node, counted(a.Done, "collective"))
		if a.EndedNS != 0 {
			line += "; its process has ended"
		}
		hanging(b, "  ", line)
	}
	for i := range g.Late {
		l := &g.Late[i]
		line := fmt.Sprintf("%s, %s (%d) on %s, was the last to enter %s of %s: the others waited %s for it",
			rankText(l.Rank.Rank), l.Name, l.PID, l.Node, explain.Count(uint64(l.Times)), counted(g.Compare, "collective"), explain.Duration(int64(l.Waited)))
		if l.Within > 0 {
			line += " (±" + explain.Duration(int64(l.Within)) + " of clock skew)"
		}
		hanging(b, "  ", line)
	}
	if len(g.Absent)+len(g.Late) == 0 {
		hanging(b, "  ", fmt.Sprintf("No rank made the others wait in %s.", counted(g.Compare, "collective")))
	}
}

// ranks formats ranks: "rank 3", "ranks 0 1 2 and 5 more", or "2 ranks" if their numbers are unknown.
func ranks(all []int32) string {
	const most = 8
	known := slices.DeleteFunc(slices.Clone(all), func(r int32) bool { return r < 0 })
	known = known[:min(len(known), most)]
	if len(known) == 0 {
		return counted(len(all), "rank")
	}
	text := "ranks"
	if len(all) == 1 {
		text = "rank"
	}
	for _, r := range known {
		text += fmt.Sprintf(" %d", r)
	}
	if n := len(all) - len(known); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// rankText formats a rank. Its number is unknown if ncclCommSplit made the communicator.
func rankText(r int32) string {
	if r < 0 {
		return "a rank of unknown number"
	}
	return fmt.Sprintf("rank %d", r)
}

func memberOf(m *fleet.Member) wire.CommMember {
	return wire.CommMember{Rank: m.Rank.Rank, Node: m.Node, PID: m.PID, Comm: m.Name, Done: m.Done}
}

// fleetJSON prints the report as JSON.
func (e *Env) fleetJSON(g *nodeAnswers, reports []fleet.Report, groups []fleet.Group) error {
	out := wire.FleetReport{Nodes: g.nodes(), Reports: []wire.NodeReport{}, Communicators: []wire.Communicator{}, Notes: append([]string{}, g.warnings()...)}
	for i := range reports {
		out.Reports = append(out.Reports, wire.NodeReport{Node: reports[i].Name, Report: reports[i].JSON})
	}
	for i := range groups {
		x := &groups[i]
		j := wire.Communicator{ID: x.Comm, Ranks: x.Ranks, Unseen: append([]int32{}, x.Unseen...), Compared: x.Compare, Seen: []wire.CommMember{}, Absent: []wire.AbsentRank{}, Late: []wire.LateRank{}}
		for k := range x.Members {
			j.Seen = append(j.Seen, memberOf(&x.Members[k]))
		}
		for k := range x.Absent {
			a := &x.Absent[k]
			y := wire.AbsentRank{CommMember: memberOf(a.Member), Seq: a.Seq, Op: a.Op, Since: a.Since.UTC(), ForNS: int64(a.For), Entered: []int32{}}
			for _, m := range a.Entered {
				y.Entered = append(y.Entered, m.Rank.Rank)
			}
			j.Absent = append(j.Absent, y)
		}
		for k := range x.Late {
			l := &x.Late[k]
			j.Late = append(j.Late, wire.LateRank{CommMember: memberOf(l.Member), Times: l.Times, WaitedNS: int64(l.Waited), WithinNS: int64(l.Within)})
		}
		out.Communicators = append(out.Communicators, j)
	}
	text, err := json.MarshalIndent(&out, "", "  ")
	if err == nil {
		err = e.printf("%s\n", text)
	}
	for _, n := range out.Notes {
		e.note("Note: %s", n)
	}
	return err
}
