// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Sockets of traced processes, by peer: TCP, connected UDP, and UNIX. Much of TCP happens in
 * interrupts of unrelated threads: so a socket's owner is recorded when it uses the socket.
 */
#pragma once
#include "port.h"

const volatile bool retransmit_has_error = true; /* tcp_retransmit_skb's third argument, 6.14 */

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOCK_DGRAM 2
#define SOCK_BINDPORT_LOCK 8 /* in sk_userlocks: bind() chose the port */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_CLOSE 7
#define MSG_PEEK 2

struct owner {
	__u32 tgid;
	__u32 client; /* 1: the process connected it; 0: it may have accepted it */
	__u64 since_ns; /* start of connect; 0: not connecting */
	char comm[16];
};

/*
 * socket_owners: socket -> traced process. Written at connect, send and receive, deleted at close.
 * When full, the least recently used are evicted: their retransmits have no owner until their next
 * use.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct owner);
} socket_owners SEC(".maps");

static __always_inline void set_address(struct host_key *key, const struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_INET)
		key->object[1] = (__u64)sk->__sk_common.skc_daddr << 32 | 0xffff0000;
	else
		bpf_probe_read_kernel(key->object, 16, &sk->__sk_common.skc_v6_daddr);
}

/*
 * Sets the peer. The port of a peer that connected carries no information, and there are many.
 */
static __always_inline void set_peer(struct host_key *key, const struct sock *sk,
				     const struct owner *o)
{
	if ((o && o->client) || !is_bound(sk))
		key->port = sk->__sk_common.skc_dport;
	set_address(key, sk);
}

static __always_inline bool is_inet(const struct sock *sk, __u16 protocol)
{
	__u16 family = sk->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sk->sk_protocol == protocol;
}

static __always_inline bool is_tcp(const struct sock *sk)
{
	return is_inet(sk, IPPROTO_TCP);
}

static __always_inline void set_udp_peer(struct host_key *key, const struct sock *sk)
{
	key->peer = PEER_UDP;
	if (!(BPF_CORE_READ_BITFIELD_PROBED(sk, sk_userlocks) & SOCK_BINDPORT_LOCK))
		key->port = sk->__sk_common.skc_dport;
	set_address(key, sk);
}

/*
 * Whether a socket is of a kind with peers: TCP, or connected. Without a connection, the peer may be
 * another one for each packet. Any process of the machine pays for this.
 */
static __always_inline bool has_peer(const struct sock *sk)
{
	if (is_tcp(sk))
		return true;
	if (sk->__sk_common.skc_state != TCP_ESTABLISHED)
		return false;
	return sk->__sk_common.skc_family == AF_UNIX || is_inet(sk, IPPROTO_UDP);
}

/*
 * Sets the peer of a UNIX socket. An accepted socket has the name of the one that listens, and its
 * client has none. Two without a name are a socketpair, which nobody connected. A datagram socket
 * without a name gets no answers.
 */
static __always_inline bool set_unix_peer(struct host_key *key, const struct sock *sk)
{
	const struct unix_sock *u = (const struct unix_sock *)sk;
	bool named, datagrams = sk->sk_type == SOCK_DGRAM;
	const struct unix_address *name;
	__u32 at = 0;
	int len;

	if (!bpf_core_type_exists(struct unix_sock)) /* a module, or none */
		return false;
	key->peer = PEER_UNIX;
	named = BPF_CORE_READ(u, addr) != NULL;
	if (datagrams && !named)
		return false;
	if (named && !datagrams)
		return true;
	u = (const struct unix_sock *)BPF_CORE_READ(u, peer);
	name = u ? BPF_CORE_READ(u, addr) : NULL;
	if (!name)
		return false;
	len = BPF_CORE_READ(name, len) - (int)sizeof(name->name[0].sun_family);
	if (len <= 0 || len > (int)sizeof(name->name[0].sun_path) + 1)
		return false;
	key->port = len;
	if (len > (int)sizeof(key->object)) {
		at = len - sizeof(key->object);
		len = sizeof(key->object);
	}
	bpf_probe_read_kernel(key->object, len,
			      (void *)name + bpf_core_field_offset(struct unix_address, name) +
				      sizeof(name->name[0].sun_family) + at);
	return true;
}

static __always_inline void own(const struct sock *sk, __u32 tgid, __u64 since)
{
	struct owner o = { .tgid = tgid, .client = since != 0, .since_ns = since };
	__u64 key = (__u64)sk;

	bpf_get_current_comm(o.comm, sizeof(o.comm));
	bpf_map_update_elem(&socket_owners, &key, &o, BPF_ANY);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_socket_state, const struct sock *sk, int old, int new)
{
	__u64 key = (__u64)sk, now = bpf_ktime_get_ns();
	struct host_event e = {};
	struct owner *o;
	__u32 tgid;

	if (!is_tcp(sk))
		return 0;
	if (new == TCP_SYN_SENT) {
		tgid = current_target();
		if (tgid)
			own(sk, tgid, now);
		return 0;
	}
	if (old != TCP_SYN_SENT && new != TCP_CLOSE)
		return 0;
	o = bpf_map_lookup_elem(&socket_owners, &key);
	if (!o)
		return 0;
	if (old == TCP_SYN_SENT && o->since_ns) {
		e.key.kind = HOST_CONNECT;
		e.key.tgid = o->tgid;
		set_peer(&e.key, sk, o);
		e.ns = now - o->since_ns;
		e.failed = new != TCP_ESTABLISHED;
		__builtin_memcpy(e.comm, o->comm, sizeof(e.comm));
		o->since_ns = 0;
		host_add(&e);
	}
	if (new == TCP_CLOSE)
		bpf_map_delete_elem(&socket_owners, &key);
	return 0;
}

/* A traced process has sent or received: result bytes, or an error. */
static __always_inline int transfer(struct sock *sk, int result, __u8 kind)
{
	struct host_event e = { .key = { .kind = kind }, .ns = -1 };
	__u64 key = (__u64)sk;
	struct owner *o;
	__u32 srtt_us = 0;

	if (result <= 0 || !has_peer(sk))
		return 0;
	e.key.tgid = current_target();
	if (!e.key.tgid)
		return 0;
	if (is_tcp(sk)) {
		o = bpf_map_lookup_elem(&socket_owners, &key);
		if (!o)
			own(sk, e.key.tgid, 0);
		set_peer(&e.key, sk, o);
	} else if (sk->__sk_common.skc_family != AF_UNIX) {
		set_udp_peer(&e.key, sk);
	} else if (!set_unix_peer(&e.key, sk)) {
		return 0;
	}
	e.bytes = result;
	if (kind == HOST_SEND && e.key.peer == PEER_TCP) {
		srtt_us = BPF_CORE_READ((struct tcp_sock *)sk, srtt_us);
		if (srtt_us)
			e.ns = (__u64)srtt_us * 125; /* in units of 1/8 us */
	}
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	return host_add(&e);
}

/* Since 6.3, like the next. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int result)
{
	return transfer(sk, result, HOST_SEND);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_receive, struct sock *sk, int result, int flags)
{
	if (flags & MSG_PEEK) /* it will be received later */
		return 0;
	return transfer(sk, result, HOST_RECEIVE);
}

SEC("tp_btf/tcp_retransmit_skb")
int on_retransmit(__u64 *ctx)
{
	struct host_event e = { .key = { .kind = HOST_RETRANSMIT }, .ns = -1 };
	const struct sock *sk = (const struct sock *)ctx[0];
	const struct sk_buff *skb = (const struct sk_buff *)ctx[1];
	__u64 key = (__u64)sk;
	struct owner *o;

	if (retransmit_has_error && (int)ctx[2]) /* it could not be sent */
		return 0;
	o = bpf_map_lookup_elem(&socket_owners, &key);
	if (o) {
		e.key.tgid = o->tgid;
		__builtin_memcpy(e.comm, o->comm, sizeof(e.comm));
		set_peer(&e.key, sk, o);
	}
	e.bytes = skb->len;
	return host_add(&e);
}
