// Package dashboard serves what a database holds over HTTP: the read API, which the page
// of the dashboard and the other machines of a fleet ask. It answers through package
// query and changes nothing. Who may ask is package guard's to say. docs/reference/api.md describes
// the API; [Paths] is its table.
//
// No more than four questions are worked on at once, each for a bounded time; one that
// finds no place within five seconds is sent away.
package dashboard
