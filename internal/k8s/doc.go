// Package k8s tracks the pods of this machine: the names of pods and containers whose ids are in
// control group names, and which pods request GPUs.
//
// It asks a kubelet for its list every ten seconds, and sooner after a lookup of an unknown pod. Or
// it lists and watches the node's pods at an API server. Both speak JSON over HTTP. The service
// account's token is sent only over TLS, and only to the configured host.
//
// While the server is unreachable the package keeps what it has, and retries with backoff. Session
// runs a [Table] and looks pods up in it.
package k8s
