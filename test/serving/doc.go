// Package serving is the lab's inference server: an HTTP server, an engine and tokenizers, each a
// process, on the simulated GPU. Its command line, titles, metrics and answers are like vLLM's. It
// can inject faults into itself, and it writes the truth: the times of each request and each step.
//
// The programs in py need Python's standard library only. lab/client.py generates load. See
// docs/design/inference.md. Only tests import this package.
package serving
