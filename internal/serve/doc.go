// Package serve joins requests to inference servers with the steps of their engines: what a server's
// engine did while a request waited for its first byte, and while its response was sent.
//
// A step without a CUDA graph is taken for prompts, one with a graph for tokens: servers launch a
// graph for each token, and the kernels of prompts one by one. Without any graph the two cannot be
// told apart; while launches may have no record, nothing is divided. In a step, the wait for work comes
// first. The request's own prompt is the last step for prompts that ended before its first byte.
//
// The package is pure: it has no clock, and a replay gives the same answer.
package serve
