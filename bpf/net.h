// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * TCP of traced processes, by peer. Much of it happens in interrupts of unrelated threads: so a
 * socket's owner is recorded when it uses the socket.
 */
#pragma once
#include "port.h"

const volatile bool retransmit_has_error = true; /* tcp_retransmit_skb's third argument, 6.14 */

#define IPPROTO_TCP 6
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

/*
 * Sets the peer. The port of a peer that connected carries no information, and there are many.
 */
static __always_inline void set_peer(struct host_key *key, const struct sock *sk,
				     const struct owner *o)
{
	if ((o && o->client) || !is_bound(sk))
		key->port = sk->__sk_common.skc_dport;
	if (sk->__sk_common.skc_family == AF_INET)
		key->object[1] = (__u64)sk->__sk_common.skc_daddr << 32 | 0xffff0000;
	else
		bpf_probe_read_kernel(key->object, sizeof(key->object),
				      &sk->__sk_common.skc_v6_daddr);
}

static __always_inline bool is_tcp(const struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP;
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
static __always_inline int transfer(struct sock *sk, int result, __u16 kind)
{
	struct host_event e = { .key = { .kind = kind }, .ns = -1 };
	__u64 key = (__u64)sk;
	struct owner *o;
	__u32 srtt_us = 0;

	if (result <= 0 || !is_tcp(sk))
		return 0;
	e.key.tgid = current_target();
	if (!e.key.tgid)
		return 0;
	o = bpf_map_lookup_elem(&socket_owners, &key);
	if (!o)
		own(sk, e.key.tgid, 0);
	set_peer(&e.key, sk, o);
	e.bytes = result;
	if (kind == HOST_SEND) {
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
