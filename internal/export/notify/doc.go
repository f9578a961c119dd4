// Package notify reports causes of lost time to a webhook: when one begins, becomes more severe or
// has another culprit, and when it is over.
//
// A [Sink] never waits for the network: messages go into a queue, which drops and counts its oldest
// when full, and one goroutine sends them. It retries temporary failures with growing backoff. It
// drops and counts messages that are refused or too old. Each message has its time and an id that
// stays the same in all tries. If there is a secret, it also has a signature over both and the body
// (HMAC-SHA256). Header names and format are those of Standard Webhooks.
//
// The package follows no redirects, reads little of an answer, opens no connection before there is
// a message, and reveals only the address's host. Its caller, package cli, writes the messages.
package notify
