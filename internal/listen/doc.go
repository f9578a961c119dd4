// Package listen opens the ports of ingero's servers by one rule. A port alone is local to this
// machine. Any other address must be explicit, and requires a token unless the server is
// public. The package reports the bound address, and knows nothing of the content. Its callers are
// the commands that serve.
package listen
