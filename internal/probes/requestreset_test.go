package probes

import (
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
)

// A request that is read after the client has reset the connection leaves nothing behind: the next
// connection may have the same socket.
func TestRequestsAfterReset(t *testing.T) {
	r := ownRequests(t, 0)
	x := newExchange(t, 0)
	if _, err := unix.Write(x.client, []byte(post)); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptLinger(x.client, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		t.Fatal(err)
	}
	x.close(&x.client)
	reset := []unix.PollFd{{Fd: int32(x.server)}}
	if _, err := unix.Poll(reset, -1); err != nil || reset[0].Revents&unix.POLLERR == 0 {
		t.Fatalf("the server's end has events %#x, %v", reset[0].Revents, err)
	}
	b := make([]byte, 4096)
	if n, err := unix.Read(x.server, b); n != len(post) {
		t.Fatalf("the server read %d bytes, %v", n, err)
	}
	x.close(&x.server)
	var key uint64
	var c bpf.RequestConnection
	each := r.objects.Connections.Iterate()
	for each.Next(&key, &c) {
		t.Errorf("after the server has closed it, the connection is %+v", c)
	}
	if err := each.Err(); err != nil {
		t.Error(err)
	}
}
