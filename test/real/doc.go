// Package real runs real programs, unmodified as Debian packages them, which ingero traces on the
// simulated stack: training loops of the CUDA build of PyTorch with loaders in other processes,
// CUDA graphs, numba and pycuda.
//
// TestReal asserts exactly: each call that the libraries or the program counted, the name of each
// kernel, the Python line of each call of the main thread except the first ones, and the program's
// output. It is deterministic, but too large to be required for each change.
//
// TestVictims is a measurement, the incident lab of real programs. A victim is a row of [Victims]:
// a script of testdata/victims that is healthy, or injects a fault into itself and measures its
// cost on its own clock. It is traced with the default flags, and compared with the output of
// ingero explain. A wrong answer is a row of the table, not a failure.
//
// tools/torch-root.sh downloads what both need, 1.1 GB:
//
//	make test-real
//	make victims ONLY=loader          the table is in bin/victims.md
//	go test -tags real ./test/real -run 'TestVictims/gil' -v -args -keep DIR
//
// The last command runs one program, and keeps its recordings and reports. Package tapes/raw
// records tapes of victims.
package real
