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
		Short: "Answer assistants: a Model Context Protocol server on standard input, or over HTTPS",
		Long: `mcp answers assistants (Claude, Cursor, any MCP client) about what was recorded, also while a
trace records. It changes nothing and needs no rights but to read. Its first tool, diagnose,
says in one call whether something is wrong, who did it and what to do; docs/guides/mcp.md lists all.

It speaks on standard input and output, as clients start it. --http :8080 serves Streamable
HTTP at https://127.0.0.1:8080/mcp in its place, by TLS 1.3 alone, to this machine alone;
--http 0.0.0.0:8080 lets other machines ask, which needs a token: a file with 16 characters or
more, --token-file, or INGERO_TOKEN. Certificates and hosts are as those of ingero dashboard.`,
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
	c.Serve.NoTLS = false // it is the dashboard's
	api, end := e.readAPI(ctx, c)
	defer end()
	log := e.logger(c.Debug)
	m := mcp.New(mcp.Options{Version: e.Build.number(), Now: e.clock, API: api, Machine: e.machine(c), Log: log})
	if c.Serve.MCP == "" {
		e.note("Reading %s; speaking MCP on standard input and output", firstThere(c.Databases()))
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
		return wordsListen(err)
	}
	defer func() { _ = l.Close() }() // Serve has, as a rule
	certs, about, err := e.certificates(c, l)
	if err != nil {
		return err
	}
	e.note("Serving %s on https://%s at /mcp", firstThere(c.Databases()), l)
	e.note("%s", about)
	h := guard.Wrap(mcp.Handler(m, log), guard.Options{Names: l.Names, Allow: c.Serve.AllowHosts, Token: token, Certs: certs})
	return guard.Serve(ctx, l, h, certs, log)
}
