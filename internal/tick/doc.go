// Package tick has the values that flow from a source through the session to every sink: batches of
// calls as they arrive, and one [Tick] per second.
//
// The package only defines data: it starts nothing, reads nothing and decides nothing. Sources and
// sinks import it, and not each other.
package tick
