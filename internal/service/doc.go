// Package service tells the service manager that started this process how it does, by
// the protocol of sd_notify(3): ready, reads its settings anew, is alive, stops.
//
// It opens a socket for each message and keeps none, and does nothing where nobody
// wants to know. Only cli calls it.
package service
