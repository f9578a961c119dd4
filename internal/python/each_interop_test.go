//go:build interop

package python_test

import "testing"

// Each version that ingero knows is read as well as that of python3, which tests without
// the build tag interop run.
func TestEachPython(t *testing.T) {
	t.Run("KernelStacks", TestKernelStacks)
	t.Run("FindInNamespaces", TestFindInNamespaces)
	t.Run("WalkerOfRunning", TestWalkerOfRunning)
	t.Run("Walker", TestWalker)
	t.Run("GIL", TestGIL)
}
