package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/fleet"
	"ingero/internal/wire"
)

// queriesFleet reports whether the command queries other nodes. --db on the command line
// overrides configured nodes; --nodes does not.
func queriesFleet(c *config.Config) bool {
	return len(c.Fleet.Nodes) > 0 && (c.From["db"] != "--db" || c.From["fleet.nodes"] == "--nodes")
}

// notWithNodes rejects flags that cannot be combined with --nodes.
func notWithNodes(c *cobra.Command, do string, names ...string) error {
	for _, name := range names {
		if c.Flags().Changed(name) {
			return usage(do, "--%s cannot be combined with --nodes", name)
		}
	}
	return nil
}

// nodeAnswers is the queried nodes and their problems.
type nodeAnswers struct {
	*fleet.Fleet
	e         *Env
	requested int // number of nodes
	problems  []fleet.Problem
}

// gather connects to the configured nodes. Nodes that do not answer go to g.problems. If none
// answers, gather returns an error.
func (e *Env) gather(ctx context.Context, c *config.Config) (*nodeAnswers, error) {
	if c.From["db"] == "--db" {
		return nil, usage("remove one of them", "--db and --nodes cannot be combined")
	}
	token, err := e.token(c)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Options{Nodes: c.Fleet.Nodes, Token: token, CA: c.Fleet.CA, Pins: c.Fleet.Pins, Timeout: c.Fleet.Timeout, Skew: c.Fleet.Skew,
		Now: e.Now})
	var wrong *fleet.Error
	if errors.As(err, &wrong) {
		return nil, usage(wrong.Do, "%s", wrong.What)
	}
	if err != nil {
		return nil, err
	}
	e.note("Asking %s: %s", counted(len(c.Fleet.Nodes), "machine"), strings.Join(c.Fleet.Nodes, ", "))
	for _, n := range c.Fleet.Nodes {
		if token != "" && strings.HasPrefix(n, "http://") {
			e.note("Note: ingero sends the token to %s without TLS: anyone on the network path can read it", n)
		}
	}
	g := &nodeAnswers{Fleet: f, e: e, requested: len(c.Fleet.Nodes)}
	g.add(f.Meet(ctx))
	if len(f.Machines()) == 0 {
		return g, errors.Join(ctx.Err(), g.noAnswer())
	}
	return g, nil
}

// add appends the problems of nodes that did not answer.
func (g *nodeAnswers) add(problems []fleet.Problem) {
	g.problems = append(g.problems, problems...)
}

// noAnswer returns the error that no node answered, with the reasons.
func (g *nodeAnswers) noAnswer() error {
	p := &problem{What: "none of the nodes answered", Do: g.problems[0].Do, Err: g.problems[0].Err}
	if g.problems[0].Status == http.StatusBadRequest {
		p.Code = exitUsage
	}
	if len(g.problems) == 1 || g.requested == 1 {
		p.What = g.problems[0].Node + " " + g.problems[0].What
		return p
	}
	g.printWarnings()
	return p
}

// warnings returns the problems and notes, one line each.
func (g *nodeAnswers) warnings() []string {
	var out []string
	for i := range g.problems {
		out = append(out, g.problems[i].String())
	}
	return append(out, g.Notes()...)
}

// printWarnings prints the warnings to standard error.
func (g *nodeAnswers) printWarnings() {
	for _, w := range g.warnings() {
		g.e.note("Note: %s", w)
	}
}

// nodes returns the nodes for JSON output.
func (g *nodeAnswers) nodes() []wire.Node {
	var out []wire.Node
	for _, m := range g.Machines() {
		out = append(out, wire.Node{Name: m.Name, Address: m.Address, AheadNS: int64(m.Ahead), Within: int64(m.Within)})
	}
	for i := range g.problems {
		p := &g.problems[i]
		known := false
		for j := range out {
			if out[j].Name == p.Node {
				out[j].Problem, known = p.What, true
			}
		}
		if !known {
			out = append(out, wire.Node{Name: p.Node, Address: p.Node, Problem: p.What})
		}
	}
	return out
}

// answered returns the number of nodes that answered, as text.
func (g *nodeAnswers) answered() string {
	n := g.requested - len(g.problems)
	if n == g.requested {
		return counted(n, "machine")
	}
	return fmt.Sprintf("%d of %d nodes", n, g.requested)
}

// params converts the flags to API parameters.
func (o *processFlags) params() url.Values {
	v := url.Values{}
	var pids []string
	for _, pid := range o.pids {
		pids = append(pids, strconv.FormatUint(uint64(pid), 10))
	}
	for name, text := range map[string]string{"pid": strings.Join(pids, ","), "pod": o.place.Pod, "namespace": o.place.Namespace,
		"container": o.place.Container, "cgroup": o.place.Cgroup, "job": o.place.Job} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// zoneParam encodes a zone for the API: its name and its offset east of UTC at a time, in s.
func zoneParam(zone *time.Location, at time.Time) string {
	name, east := at.In(zone).Zone()
	return fmt.Sprintf("%.10s:%d", name, east)
}
