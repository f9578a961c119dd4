// Package mcp serves assistants: the tools, resources and prompts of the Model Context Protocol,
// over standard input and output or over Streamable HTTP, with the official SDK.
//
// It analyzes nothing itself. A tool's result comes from the read API ([Options.API]) and from what
// the commands compute ([Machine]). The package selects, truncates and renders it in one of two
// forms: telegraphic notation, or sentences. Both fit into a token budget, and end with a cursor if
// there is more. It rejects cursors of other questions, unknown arguments, and paths.
//
// Text of traced processes (names, command lines, files) is foreign data: unprintable characters
// are removed, and it is truncated and quoted. Package guard authorizes network clients. The caller
// is the command `ingero mcp`.
package mcp
