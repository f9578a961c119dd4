package sim

import "runtime"

// File returns the content of one file of the stack for this architecture. The error is that of a
// missing file.
func File(name string) ([]byte, error) {
	return prebuilt.ReadFile("prebuilt/" + runtime.GOARCH + "/" + name)
}
