// Package guests boots Debian's kernels in an emulator, so that what older and
// otherwise configured kernels do is tested and not assumed.
//
// A guest is QEMU without hardware virtualisation, one CPU, 512 MiB, a kernel
// that apt downloads once into bin/kernels, and an initial file system made
// here that holds one static program as /init beside the files it needs. What
// the program prints is the result; a line of it is "GUEST PASS" or starts
// "GUEST FAIL". Only tests import this package.
package guests
