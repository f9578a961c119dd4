// Package mcp answers assistants: the tools, resources and prompts of the Model Context
// Protocol, over standard input and output or over Streamable HTTP, by the official SDK.
//
// It decides nothing by itself. What a tool tells comes from the read API ([Options.API])
// and from what the commands compute ([Machine]); here it is only chosen, cut and put in
// one of two forms: telegraphic notation, or sentences. Both fit into a budget of tokens,
// and end with a cursor where there is more. It refuses cursors of other questions,
// arguments that a tool does not have, and paths.
//
// Text of traced processes (names, command lines, files) is data of somebody else: it
// is stripped of what cannot be printed, cut, and put in quotes. Who may ask over the
// network is package guard's to say. The caller is the command `ingero mcp`.
package mcp
