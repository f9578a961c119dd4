// Package guard restricts access to ingero's HTTP servers. It checks the Host, the Origin and the
// token of each request, limits clients, and provides certificates. It knows nothing of what is
// served.
//
// Any web page can make a browser on this machine send requests to ingero. So the Host must be an
// address of the port, an allowed name, or, with the token, a name of the certificate. A request
// that states its page's origin must come from this server.
package guard
