// Package otlp exports a session to an OpenTelemetry receiver: metrics, spans and logs, over HTTP
// (protobuf or JSON) or gRPC.
//
// An [Exporter] is a sink ([tick.Sink]). It never waits for the network: each signal has a queue,
// bounded by bytes, which drops and counts its oldest when full. One goroutine for each signal
// sends, and retries temporary failures with growing backoff. Refused items are counted, too.
//
// Spans are slow, failed or sampled calls with their inner calls; or all calls; or none. A chain
// becomes a span when it is over, with links to the slow calls that prove it, and a log record at
// each of its events.
//
// The package sends no text of a process that the tick does not have, listens on nothing, and opens
// no connection before there is something to send. Package cli is its caller.
package otlp
