// Package tick holds the values that flow from a source through the session to
// every sink: batches of calls as they arrive, and once a second one [Tick].
//
// It is vocabulary only: it starts nothing, reads nothing and decides nothing.
// Sources and sinks import it, and so need not know each other.
package tick
