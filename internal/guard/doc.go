// Package guard keeps ingero's HTTP servers to those who may ask: it looks at the Host,
// the Origin and the token of each request, bounds what a client can take of the server,
// and has the certificates. It knows nothing of what is served.
//
// A browser on this machine can be made to send requests here by any page that it
// shows. So the Host must be an address of the port, a name that was allowed, or, from
// who has the token, a name of the certificate; and a request that says from which page
// it comes must come from here.
package guard
