// Package notify tells a webhook of causes of lost time: when one begins, is graver or has
// another culprit, and when it is over.
//
// A [Sink] never waits for the network: what is to be told goes into a queue, whose oldest is
// dropped and counted when it is full, and one goroutine sends. What the receiver cannot take
// now is tried again, later and later; what it refuses, or what is too old, is dropped and
// counted. Each message has an id that stays the same when it is sent again, its time, and, where
// there is a secret, a signature over both and the body (HMAC-SHA256), under the names and
// in the form of Standard Webhooks.
//
// It follows no redirection, reads little of an answer, opens no connection before there is
// something to tell, and never says more of the address than its host. What a message says
// is its caller's, package cli.
package notify
