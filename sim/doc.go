// Package sim is a simulated CUDA stack: the runtime and driver libraries under
// their real names, a simulated GPU behind them, and programs that use it. No GPU
// is needed to run, trace or test with them.
//
// The files are built from src/ by build.sh for amd64 and arm64, lie in prebuilt/,
// and those of the running architecture are part of every binary that imports
// this package. [Extract] writes them out. README.md says what the simulated GPU
// does and which environment variables set it up.
//
// The package refuses nothing and starts nothing. The demo and tests use it; the
// tracer treats the libraries as it does NVIDIA's and does not know them.
package sim
