// Package fleet asks the read API of several machines at once (package dashboard) and
// puts their answers together: sums and distributions are added up, rows of SQL are
// merged where that gives what one database with all of it would give, and else get the
// machine's name as their first column; ranks of one communicator are looked at together.
//
// A machine that does not answer, late, or not as it should, is a [Problem] beside the
// answers of the others. How the clocks stand to each other is measured with each
// question. What machines send is bounded, and not trusted: names and texts are made
// printable. It is meant for tens of machines; docs/guides/fleet.md says what is for more.
package fleet
