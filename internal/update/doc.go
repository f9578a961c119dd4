// Package update checks once a day whether a newer release of ingero exists. Except for this check,
// ingero connects only to machines that the user named.
//
// The check sends one GET request to a fixed address. Like that of any HTTP client, the request has
// the name and version of the program. It has nothing about this machine, its user or its programs.
// The check limits the size and the time of the answer, and accepts only a version of three numbers.
// It follows no redirect to another host or without TLS. It downloads and installs nothing.
//
// A command never waits for the check. It prints the stored answer of an earlier check, and cancels
// a request that is still open when the command ends.
package update
