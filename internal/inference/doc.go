// Package inference reads the metrics of inference servers: how many requests run and wait, how
// full the KV cache is, and how long requests and tokens take. It maps the metrics of vLLM, SGLang,
// TensorRT-LLM, TGI, llama.cpp and Triton to one set, [tick.Inference].
//
// A [Reader] reads each server every 5 s, over the loopback addresses of the server's own network
// namespace. It sends one GET without credentials, and waits at most a second. It trusts no
// response: size, time and the number of servers are bounded, and it follows no redirects.
// It never configures a server.
//
// Its caller is cli; a session (package session) gets the reads through an interface of its own.
package inference
