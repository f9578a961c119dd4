// Package redact takes out of command lines what may be a secret, before anything
// else sees them: passwords, tokens, keys, and what stands in an address before its @.
//
// It rather takes out too much. What follows a name that sounds secret is dropped to
// the end of the argument, and the next argument where nothing follows; so are options
// of some programs, and texts that look like a known kind of key. A secret that stands
// alone, without a name, in a form that nobody knows, cannot be told from a word: who
// types one shows it to all users of the machine anyway.
//
// The package is pure. Session uses it for what it reads of processes, the commands for
// what they were given themselves.
package redact
