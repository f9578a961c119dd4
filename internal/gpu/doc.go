// Package gpu finds the NVIDIA driver and GPUs of a machine, from the driver's own files and
// otherwise from nvidia-smi.
//
// It loads no NVIDIA library and needs no CGO. It never wakes a driver that is not loaded. It runs
// no program but an nvidia-smi that only root and the agent's user can change, and does not wait
// for it when the GPU hangs. A machine without a GPU gives an empty result and no error. The check
// command calls the package, and the session polls through it.
package gpu
