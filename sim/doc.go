// Package sim is a simulated CUDA stack: the runtime and driver libraries under
// their real names, a simulated GPU behind them, and programs that use it. No GPU
// is needed to run, trace or test with them.
//
// build.sh builds the files from src/ for amd64 and arm64 into prebuilt/. Those of the running
// architecture are embedded in every binary that imports this package. [Extract] writes them out.
// README.md describes the simulated GPU and its environment variables.
//
// The package starts nothing. The demo and tests use it. The tracer treats the libraries like
// NVIDIA's.
package sim
