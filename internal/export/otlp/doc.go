// Package otlp sends what a session sees to an OpenTelemetry receiver: metrics, spans and
// logs, over HTTP (protobuf or JSON) or gRPC.
//
// An [Exporter] is a sink ([tick.Sink]). It never waits for the network: what there is to
// send goes into a queue for each signal, bounded by bytes, whose oldest is dropped and
// counted when it is full. One goroutine for each signal sends, and tries again after
// temporary failures, later and later. What the receiver refuses is counted, too.
//
// Spans are calls that were slow, failed or were sampled, each with the calls inside it;
// or all calls; or none. A chain becomes a span when it is over, with links to the slow
// calls that it is known by, and a log record at each step of its life.
//
// It sends no text of a process that the tick does not have, listens on nothing, and
// opens no connection before there is something to send. Package cli is its caller.
package otlp
