// Package decode turns the kernel's records into events: bytes of a ring into calls and process
// events, and the kernel's monotonic clock into wall-clock time.
//
// It has the only unsafe code on that path, behind length checks. It reports every malformed record
// as an error, which its caller counts. The kernel truncates records after the last used field;
// nothing is read beyond a record's bytes. session calls this package.
package decode
