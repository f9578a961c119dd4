// Package service sends the state of this process to the service manager that started it, by the
// protocol of sd_notify(3): ready, reloading, alive, stopping.
//
// It opens a socket for each message and closes it again. Without a service manager it does nothing.
// Only cli calls it.
package service
