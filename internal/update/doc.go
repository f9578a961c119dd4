// Package update checks once a day whether there is a newer release of ingero, and prints a line
// about it. Apart from it, ingero connects only to machines that the user named.
//
// It sends one GET of a fixed address, with the name and version of the program as every HTTP
// client does, and nothing about this machine, its user or its programs. It accepts only a version
// of three numbers from the answer. The answer is bounded in size and time, and redirects to
// another host or without TLS are not followed. Nothing is downloaded or installed.
//
// The command never waits for the check: it prints the last answer, which is kept in a file, and
// gives up on an answer that is late.
package update
