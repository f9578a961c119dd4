// Package listen opens the ports of ingero's servers by one rule: a port alone is for
// this machine, another address is said outright, and what is not for everybody is not
// served there without a token. It says what was bound. It knows nothing of what is
// served. Its callers are the commands that serve.
package listen
