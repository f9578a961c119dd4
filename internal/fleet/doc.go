// Package fleet queries the read API of several machines at once (package dashboard) and merges the
// answers: it adds sums and distributions, and looks at the ranks of one communicator together. It
// merges rows of SQL if that gives the result of one combined database; otherwise the rows get the
// machine's name as first column.
//
// A machine that answers late, wrongly or not at all is a [Problem] beside the others' answers. The
// package measures clock skew with each question. Answers are bounded and untrusted: names and
// texts are made printable. It is meant for tens of machines; docs/guides/fleet.md describes
// alternatives for more.
package fleet
