// Package real has real programs, as Debian has them and unmodified, that ingero traces on the
// simulated stack: training loops of the CUDA build of PyTorch with loaders in other processes,
// CUDA graphs, numba and pycuda.
//
// TestReal asserts exactly: each call that the libraries or the program counted, the name of
// each kernel, the line of Python of each call of the main thread but for the first, and what
// the program printed. It is deterministic and blocks no change, for its size alone.
//
// TestVictims is a measurement, the incident lab of real programs. A victim is a row of
// [Victims]: a script of testdata/victims, which does a fault to itself or is healthy, and
// notes on its own clock what that cost. It is traced with the default flags, and what ingero
// explain says is compared with it. A wrong answer is a row of the table, no failure.
//
// tools/torch-root.sh fetches what both need, 1.1 GB:
//
//	make test-real
//	make victims ONLY=loader          the table is in bin/victims.md
//	go test -tags real ./test/real -run 'TestVictims/gil' -v -args -keep DIR
//
// The last one runs one program, and keeps its recordings and reports. Package tapes/raw records
// tapes of victims.
package real
