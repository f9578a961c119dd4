package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/dashboard"
	"ingero/internal/explain"
	"ingero/internal/guard"
	"ingero/internal/listen"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

func dashboardCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve recordings to a browser and to other machines, over HTTPS",
		Long: `dashboard serves a web page for the database, even while a trace records: what is slow and
why, and where the time went (docs/guides/dashboard.md). It changes nothing and needs only
read access. The page uses the read API, which ingero query, explain and export use with
--nodes.

By default, dashboard listens on port 8080 for this machine only. --addr 0.0.0.0:8080
admits other machines and requires a token of at least 16 characters, in --token-file or
INGERO_TOKEN.

Without --tls-cert, dashboard signs a certificate itself, valid for 24 hours, and renews
it. It keeps the key in ~/.ingero (for root: /var/lib/ingero) and prints the fingerprint,
which clients pass to --pin. The Host of a request must be the server's address, a name in
--allow-host or, with the token, a name in the certificate. dashboard rejects requests from
pages of other sites.`,
		Example: `  ingero dashboard
  ingero dashboard --addr 0.0.0.0:8080 --token-file /etc/ingero/token
  ingero dashboard --addr 0.0.0.0:8080 --tls-cert cert.pem --tls-key key.pem --token-file token
  curl -k https://127.0.0.1:8080/api/v1/ops?since=5m`,
		Args: noArguments,
	}
	e.withSettings(c, e.dashboard)
	return c
}

func (e *Env) dashboard(ctx context.Context, c *config.Config) error {
	token, err := e.token(c)
	if err != nil {
		return err
	}
	at, err := listen.Parse(c.Serve.Addr)
	if err != nil {
		return usage("ingero dashboard --addr :8080", "--addr cannot be %s", err)
	}
	l, err := listen.Listen(ctx, at, listen.Options{Token: token})
	if err != nil {
		return listenProblem(err)
	}
	defer func() { _ = l.Close() }()                                                          // Serve normally closes it first
	if host, _, _ := net.SplitHostPort(at.String()); host != "" && net.ParseIP(host) == nil { // a bound host name is one of the server's names
		c.Serve.AllowHosts = append(c.Serve.AllowHosts, host)
	}
	certs, about, err := e.certificates(c, l)
	if err != nil {
		return err
	}
	e.served = e.databasePath(c)
	h, end := e.readAPI(ctx, c)
	defer end()
	scheme := "https"
	if certs == nil {
		scheme = "http"
	}
	e.note("Serving %s on %s://%s", e.databasePath(c), scheme, l)
	e.note("%s", about)
	return guard.Serve(ctx, l, guard.Wrap(h, guard.Options{Names: l.Names, Allow: c.Serve.AllowHosts, Token: token, Certs: certs, Public: dashboard.IsPage}), certs, e.logger(c.Debug))
}

// readAPI returns the handler of the read API for the configured database.
func (e *Env) readAPI(ctx context.Context, c *config.Config) (h http.Handler, end func()) {
	return dashboard.Handler(e.apiOptions(ctx, c))
}

func (e *Env) apiOptions(ctx context.Context, c *config.Config) dashboard.Options {
	return dashboard.Options{Node: c.Node, Version: e.Build.number(), Path: func() string { return e.databasePath(c) },
		Now: func() time.Time { return e.now(true) }, Report: e.reports(c), Fleet: e.machines(c), Done: ctx.Done(), Log: e.logger(c.Debug)}
}

// machines returns a function that queries the configured nodes for their reports.
func (e *Env) machines(c *config.Config) func(context.Context, time.Time, time.Time) ([]wire.Machine, []string, error) {
	if len(c.Fleet.Nodes) == 0 {
		return nil
	}
	return func(ctx context.Context, from, to time.Time) (out []wire.Machine, notes []string, err error) {
		s, quiet := *c, *e
		s.From = nil // one server queries both the database and the nodes
		quiet.Stderr = nil
		g, err := quiet.gather(ctx, &s)
		if g == nil {
			return nil, nil, err
		}
		defer g.Close()
		reports, problems := g.Reports(ctx, url.Values{}, from, to)
		g.add(problems)
		for i := range reports {
			r := &reports[i]
			m := wire.Machine{Address: r.Address, Name: r.Name, Version: r.Version, AheadNS: int64(r.Ahead), WithinNS: int64(r.Within), Chains: len(r.Chains), Faults: r.Faults}
			if len(r.Chains) > 0 {
				g := r.Chains[0]
				m.Gravest = &g
			}
			out = append(out, m)
		}
		for i := range g.problems {
			p := &g.problems[i]
			out = append(out, wire.Machine{Address: p.Node, Name: p.Node, Error: p.What, Do: p.Do})
		}
		return out, g.Notes(), ctx.Err()
	}
}

// listenProblem turns a listen error into a problem with a remedy.
func listenProblem(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, listen.ErrOpen):
		return &problem{What: "other machines can reach this address, so the server requires a token", Do: "create a token: head -c 24 /dev/urandom | base64 > token; then use --token-file token", Code: exitUsage, Err: err}
	case errors.As(err, &op):
		return &problem{What: "cannot listen on " + op.Addr.String() + ": " + op.Err.Error(), Do: "choose another address with --addr", Err: err}
	}
	return &problem{What: "cannot listen: " + err.Error(), Do: "choose another address with --addr", Err: err}
}

// leastToken is the minimum length of a token, against guessing.
const leastToken = 16

// token returns the bearer token that network clients must send, "" if there is none.
func (e *Env) token(c *config.Config) (string, error) {
	text, from := e.Getenv("INGERO_TOKEN"), "INGERO_TOKEN"
	if c.TokenFile != "" {
		b, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return "", err
		}
		text, from = string(b), c.TokenFile
		if strings.TrimSpace(text) == "" {
			return "", usage("head -c 24 /dev/urandom | base64 > "+c.TokenFile, "%s contains no token", c.TokenFile)
		}
	}
	text = strings.TrimSpace(text)
	if text != "" && (len(text) < leastToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return "", usage("create one: head -c 24 /dev/urandom | base64", "the token in %s must have at least %d characters and no spaces", from, leastToken)
	}
	return text, nil
}

// certificates returns the server's certificates (nil without TLS) and a line about them.
func (e *Env) certificates(c *config.Config, l *listen.Listener) (*guard.Certificates, string, error) {
	s := &c.Serve
	switch {
	case s.NoTLS && (s.Cert != "" || s.Key != ""):
		return nil, "", usage("remove one of them", "--no-tls and --tls-cert cannot be combined")
	case (s.Cert == "") != (s.Key == ""):
		return nil, "", usage("use both", "--tls-cert and --tls-key must be used together")
	case s.NoTLS:
		return nil, "Without TLS: anyone on the network path can read the answers and the token", nil
	case s.Cert != "":
		certs, err := guard.Files(s.Cert, s.Key)
		if err != nil {
			return nil, "", &problem{What: "cannot use the certificate: " + err.Error(), Do: "set --tls-cert and --tls-key to a matching certificate and key, in PEM", Err: err}
		}
		return certs, "Certificate " + s.Cert + ", fingerprint " + certs.Fingerprint(), nil
	}
	path := e.keyFile
	if path == "" {
		path = keyPath(e.home(), os.Geteuid())
	}
	certs, err := guard.SelfSigned(path, append(hostNames(l), s.AllowHosts...), time.Now)
	stays := "unchanged after a restart"
	if err != nil && path != "" {
		e.note("Note: cannot save the certificate's key: %s", err)
		certs, err = guard.SelfSigned("", append(hostNames(l), s.AllowHosts...), time.Now)
		stays = "changes with a restart"
	}
	if err != nil {
		return nil, "", err
	}
	return certs, "Self-signed certificate, valid for 24 h, fingerprint " + certs.Fingerprint() + " (" + stays + ")", nil
}

// keyPath returns the file of the certificate's key for this user, "" if there is none.
func keyPath(home string, uid int) string {
	switch {
	case uid == 0:
		return "/var/lib/ingero/dashboard.key"
	case home == "":
		return ""
	}
	return filepath.Join(home, ".ingero", "dashboard.key")
}

// hostNames returns the names that a certificate of this machine is valid for.
func hostNames(l *listen.Listener) []string {
	out := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && host != "" {
		out = append(out, host)
	}
	if ip := l.Bound().Addr(); !ip.IsUnspecified() {
		return append(out, ip.String())
	}
	addrs, _ := net.InterfaceAddrs() // on an error, the certificate has fewer names
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}

// reports returns a function that builds a report for a part of the recordings from the
// chains found while recording.
func (e *Env) reports(c *config.Config) func(context.Context, *query.Reader, *dashboard.Question) (*explain.Input, error) {
	return func(ctx context.Context, r *query.Reader, q *dashboard.Question) (*explain.Input, error) {
		all, err := r.Sessions(ctx)
		if err == nil && len(all) == 0 {
			err = query.ErrNoSession
		}
		if err != nil {
			return nil, err
		}
		w := window{from: q.From, to: q.To}
		if q.From.IsZero() && q.To.IsZero() {
			w.from, w.to = end(&all[0]).Add(-q.Window), end(&all[0]).Add(1)
		}
		o := explainOptions{stored: true, with: q.Labels} // no calls are analyzed again
		o.place = q.Place
		for _, pid := range q.PIDs {
			o.pids = append(o.pids, uint(pid))
		}
		sums, _, err := e.summaries(ctx, r, &w, o)
		if p := (*problem)(nil); errors.As(err, &p) {
			err = fmt.Errorf("%w: %s", query.ErrNoSession, p.What)
		}
		if err != nil {
			return nil, err
		}
		sums = slices.DeleteFunc(sums, func(s *query.Summary) bool {
			return q.Node != "" && s.Session.Node != q.Node || q.Session != "" && s.Session.ID != q.Session
		})
		if len(sums) == 0 {
			return nil, query.ErrNoSession
		}
		return e.storedReport(ctx, r, c, sums, &o, q.Zone)
	}
}

// storedReport builds a report from the chains found while recording.
func (e *Env) storedReport(ctx context.Context, r *query.Reader, c *config.Config, sums []*query.Summary, o *explainOptions, zone *time.Location) (*explain.Input, error) {
	in := joined(sums)
	in.Remarks, in.Labels = remarks(sums, zone), o.labelsOf()
	for _, s := range sums {
		f, within, err := o.filter(ctx, r, &s.Session, s.From, s.To)
		if err != nil {
			return nil, err
		}
		in.Labels.Add(within)
		if err := stored(ctx, r, s, f, in); err != nil {
			return nil, err
		}
	}
	tick.SortChains(in.Chains)
	var err error
	if in.Chains, in.Hidden, err = splitChains(ctx, filter(c), r, e.now(true), in.Chains); err != nil {
		return nil, err
	}
	return in, errors.Join(memory(ctx, r, sums, in), faults(ctx, r, sums, in, o))
}
