// Package gpu finds out which NVIDIA driver and GPUs a machine has, from the
// driver's own files and, for what they do not say, from nvidia-smi.
//
// It loads no NVIDIA library and needs no CGO. It never wakes a driver that is
// not loaded, runs nothing but nvidia-smi, from where only root can have put it,
// and does not wait for it when the GPU hangs. A machine without a GPU
// is an empty answer and no error. The check command calls it, and the session has
// it poll.
package gpu
