// Package redact removes possible secrets from command lines before anything else sees them:
// passwords, tokens, keys, and the user information before the @ of an address.
//
// It removes too much rather than too little. The value after a secret-sounding name is dropped to
// the end of the argument, or the next argument if nothing follows, and those after it that may be
// more values of an option. So are the secret options of
// some programs, and texts that look like a known kind of key. A bare secret of unknown form looks
// like any word, and a user who types one shows it to all users of the machine anyway.
//
// The package is pure. Session uses it for processes, the commands for their own arguments.
package redact
