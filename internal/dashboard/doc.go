// Package dashboard serves a database's content over HTTP: the read API, which the dashboard's page
// and a fleet's other machines use. It answers through package query and changes nothing. Package
// guard authorizes clients. docs/reference/api.md describes the API; [Paths] is its table.
//
// The server works on at most four questions at once, each for a bounded time. It rejects a
// question that finds no slot within five seconds.
package dashboard
