// Package update asks once a day whether a newer ingero was released, and says so in a
// line. It is the one thing by which ingero talks to a machine that nobody named.
//
// What it sends is one GET of a fixed address, with the name and the version of the
// program as every HTTP client does; nothing of this machine, its user or what runs
// there. What comes back is believed as far as a version of three numbers goes: it is
// bounded in size and time, and no redirect is followed to another host or without TLS.
// Nothing is fetched, and nothing installed.
//
// The command that asks never waits: what is told is what the last answer was, kept in
// a file, and an answer that does not come in time is none.
package update
