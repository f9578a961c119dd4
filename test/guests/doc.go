// Package guests boots Debian's kernels in an emulator, to test ingero on older and differently
// configured kernels.
//
// A guest is QEMU without hardware virtualization, with one CPU and 512 MiB. It boots a kernel that
// apt downloads once into bin/kernels. Its initial file system has one static program as /init, and
// the files that the program needs. The program prints the result: a line "GUEST PASS", or a line
// that starts with "GUEST FAIL". Only tests import this package.
package guests
