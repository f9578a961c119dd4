package cli

import (
	"context"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/guard"
	"ingero/internal/listen"
	"ingero/internal/mcp"
)

func mcpCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Run a Model Context Protocol server for assistants, on standard input or over HTTPS",
		Long: `mcp answers questions of assistants (Claude, Cursor, any MCP client) about recordings,
even while a trace records. It changes nothing and needs only read access. One call of its
first tool, diagnose, returns what is wrong, the culprit and the fix; docs/guides/mcp.md
lists all tools.

By default, mcp uses standard input and output, for clients that start it. --http :8080
serves Streamable HTTP at https://127.0.0.1:8080/mcp instead, with TLS 1.3 only and for
this machine only. --http 0.0.0.0:8080 admits other machines and requires a token of at
least 16 characters, in --token-file or INGERO_TOKEN. Certificates and hosts work as in
ingero dashboard.`,
		Example: `  ingero mcp
  ingero mcp --db incident.db
  ingero mcp --http :8080
  ingero mcp --http 0.0.0.0:8080 --token-file token --tls-cert cert.pem --tls-key key.pem`,
		Args: noArguments,
	}
	e.withSettings(c, e.mcp)
	return c
}

func (e *Env) mcp(ctx context.Context, c *config.Config) error {
	c.Serve.NoTLS = false // --no-tls is for the dashboard only
	e.served = e.databasePath(c)
	api, end := e.readAPI(ctx, c)
	defer end()
	log := e.logger(c.Debug)
	m := mcp.New(mcp.Options{Version: e.Build.number(), Now: e.clock, API: api, Machine: e.machine(c), Log: log})
	if c.Serve.MCP == "" {
		e.note("Reading %s; speaking MCP on standard input and output", e.databasePath(c))
		return mcp.Serve(ctx, m, e.Stdin, e.Stdout)
	}
	token, err := e.token(c)
	if err != nil {
		return err
	}
	at, err := listen.Parse(c.Serve.MCP)
	if err != nil {
		return usage("ingero mcp --http :8080", "--http cannot be %s", err)
	}
	l, err := listen.Listen(ctx, at, listen.Options{Token: token})
	if err != nil {
		return listenProblem(err)
	}
	defer func() { _ = l.Close() }() // Serve normally closes it first
	certs, about, err := e.certificates(c, l)
	if err != nil {
		return err
	}
	e.note("Serving %s on https://%s at /mcp", e.databasePath(c), l)
	e.note("%s", about)
	h := guard.Wrap(mcp.Handler(m, log), guard.Options{Names: l.Names, Allow: c.Serve.AllowHosts, Token: token, Certs: certs})
	return guard.Serve(ctx, l, h, certs, log)
}
