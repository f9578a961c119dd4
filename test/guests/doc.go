// Package guests boots Debian's kernels in an emulator, to test ingero on older and differently
// configured kernels.
//
// A guest is QEMU without hardware virtualization, one CPU, 512 MiB, a kernel that apt downloads
// once into bin/kernels, and an initial file system with one static program as /init and the files
// that it needs. The program's output is the result: it has a line "GUEST PASS", or a line that
// starts with "GUEST FAIL". Only tests import this package.
package guests
