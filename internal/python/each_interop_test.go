//go:build interop

package python_test

import "testing"

// Every version that ingero supports is read as well as that of python3. Tests without the build
// tag interop run python3 only.
func TestEachPython(t *testing.T) {
	t.Run("KernelStacks", TestKernelStacks)
	t.Run("FindInNamespaces", TestFindInNamespaces)
	t.Run("WalkerOfRunning", TestWalkerOfRunning)
	t.Run("Walker", TestWalker)
	t.Run("GIL", TestGIL)
}
