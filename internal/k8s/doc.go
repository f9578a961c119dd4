// Package k8s knows the pods of this machine: what a pod and its containers are
// called whose ids are in the names of control groups, and which pods ask for GPUs.
//
// It asks a kubelet for its list every ten seconds, and sooner when somebody asks for
// a pod that it does not know; or it lists and watches the pods of the node at an API
// server. Both speak JSON over HTTP, and a service account's token is sent over TLS
// only, never to another host than the one that was named.
//
// While neither can be reached nothing is forgotten, and it tries again, less and less
// often. Session runs a [Table] and asks it.
package k8s
