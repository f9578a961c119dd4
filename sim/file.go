package sim

import "runtime"

// File returns the content of one file of the stack for this architecture, for
// a caller that wants no directory. The error is that of a file that is not
// there.
func File(name string) ([]byte, error) {
	return prebuilt.ReadFile("prebuilt/" + runtime.GOARCH + "/" + name)
}
