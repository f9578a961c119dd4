// Package real holds no code: its test lets ingero trace real programs, as Debian has them
// and unmodified, on the simulated stack: training loops of the CUDA build of PyTorch with
// loaders in other processes, CUDA graphs, numba and pycuda. It asserts exactly: each call
// that the libraries or the program counted, the name of each kernel, the line of Python of
// each call of the main thread but for the first, and what the program printed.
//
// tools/torch-root.sh fetches what it needs, 1.1 GB: make test-real runs both. The test is
// deterministic and blocks no change, for its size alone.
package real
