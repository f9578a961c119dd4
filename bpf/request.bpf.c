// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Requests to HTTP/1.1 servers on this machine: when each arrived, when the server read it, and
 * when it sent the first and the last byte of its response. A separate object, since it needs Linux
 * 6.3 and serves only machines that run such servers.
 *
 * The programs look at the first and last 16 bytes of what a server receives and sends, to find
 * where requests and responses begin and end. No byte of it leaves the kernel but the status.
 */
#include "vmlinux/vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "http.h"
#include "port.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_LAST_ACK 9
#define MSG_PEEK 2
#define EAGAIN 11
#define DELAYED_ACK_NS 40000000 /* the least delay, TCP_ATO_MIN */

/* How a request's response ended. */
enum response_end {
	END_OPEN, /* it has not, as far as is known */
	END_TOLD, /* by its own last chunk */
	END_NEXT, /* the client's next request came */
	END_CLOSED, /* the connection was closed */
};

/* Which requests are not measured, and why. */
enum unmeasured {
	UNMEASURED_TLS,
	UNMEASURED_HTTP2,
	UNMEASURED_PROTOCOL,
	UNMEASURED_PIPELINED, /* a request came before the response to the last one */
	UNMEASURED_CALL, /* received by a system call whose buffer is not known: io_uring */
	UNMEASURED_FULL, /* too many connections */
	UNMEASURED_LOST, /* the ring was full */
	UNMEASURED_REASONS,
};

/* A request and its response. Times are CLOCK_MONOTONIC, 0: not yet. */
struct record {
	__u64 arrived_ns; /* on this machine: the bytes that were read first */
	__u64 read_ns; /* the server read its first bytes */
	__u64 whole_ns; /* the server read its last bytes */
	__u64 head_ns; /* the first byte of the response was sent */
	__u64 first_ns; /* and the first byte of its body */
	__u64 last_ns; /* and the last byte so far */
	__u64 gap_ns; /* the longest time between two sends of the body */
	__u64 received; /* bytes */
	__u64 sent;
	__u32 events; /* sends of the body */
	__u32 refused; /* sends that failed, buffer full: the client reads slowly */
	__u32 unread; /* bytes: the most that the client had not acknowledged */
	__u32 srtt_us; /* round trip time to the client, of the last send */
	__u32 tgid;
	__u32 tid; /* that read it */
	__u8 peer[16]; /* IPv6, or IPv4 mapped into it */
	__u16 peer_port;
	__u16 port;
	__u16 status; /* of HTTP */
	__u8 post; /* its method is POST */
	__u8 end; /* enum response_end */
};
_Static_assert(sizeof(struct record) == 120, "record");

/* What a connection does. */
enum phase {
	PHASE_IDLE,
	PHASE_REQUEST, /* the server reads a request, or works on it */
	PHASE_HEAD, /* the head of the response was sent, by itself */
	PHASE_BODY,
	PHASE_UNKNOWN, /* not HTTP/1.1, or not one request after the other */
};

struct connection {
	struct record r;
	__u32 phase;
	__u32 streamed; /* the last piece ended a chunk or an event: the end will be seen */
};

/* Chat servers send a role just before the first token. What follows so soon is the same event. */
const volatile __u64 first_event_ns = 500000;
const volatile __u64 tick_ns = 4000000; /* of the kernel's coarse clock */

/* servers: processes whose requests are measured. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* more than there are traced processes */
	__type(key, __u32);
	__type(value, __u8);
} servers SEC(".maps");

/*
 * connections: socket -> what it does. Written at the first receive, deleted at close. User space
 * takes those that are quiet. When full, a connection is not measured and counts in missed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct connection);
} connections SEC(".maps");

/*
 * requests: complete requests, read by user space once a second. Room for 16,000; when full, one
 * is counted in missed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 21);
} requests SEC(".maps");

/* Requests, or connections, that are not measured. Read by user space. */
__u64 missed[UNMEASURED_REASONS];

static __always_inline void count(enum unmeasured why)
{
	__sync_fetch_and_add(&missed[why], 1);
}

static __always_inline bool is_tcp(const struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sk->sk_protocol == IPPROTO_TCP;
}

static __always_inline bool is_server(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&servers, &tgid);
}

/*
 * When the bytes arrived that are read now. The socket's clock has the time of its last packet. A
 * delayed acknowledgement sets it later: then the coarse time of the last data serves.
 */
static __always_inline __u64 arrival(struct sock *sk, __u64 now)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	__u64 exact = BPF_CORE_READ((struct tcp_sock *)sk, tcp_clock_cache);
	__u32 ago = (__u32)bpf_jiffies64() - BPF_CORE_READ(icsk, icsk_ack.lrcvtime);
	__u64 latest = now - ago * tick_ns + tick_ns;

	if (ago * tick_ns >= DELAYED_ACK_NS && exact > latest)
		return latest;
	return exact < now ? exact : now;
}

static __always_inline void end(struct connection *c, enum response_end how)
{
	c->r.end = how;
	if (bpf_ringbuf_output(&requests, &c->r, sizeof(c->r), BPF_RB_NO_WAKEUP))
		count(UNMEASURED_LOST);
	c->phase = PHASE_IDLE;
}

static __always_inline void set_ends(struct record *r, const struct sock *sk)
{
	__u64 id = bpf_get_current_pid_tgid();

	r->tgid = id >> 32;
	r->tid = id;
	r->port = sk->__sk_common.skc_num;
	r->peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
	if (sk->__sk_common.skc_family == AF_INET) {
		__builtin_memset(r->peer, 0, 10);
		__builtin_memset(r->peer + 10, 0xff, 2);
		__builtin_memcpy(r->peer + 12, (const void *)&sk->__sk_common.skc_daddr, 4);
	} else {
		bpf_probe_read_kernel(r->peer, sizeof(r->peer), &sk->__sk_common.skc_v6_daddr);
	}
}

/* What does not begin a request arrives on a connection without one. */
static __always_inline void not_http(struct connection *c, __u64 w)
{
	c->phase = PHASE_UNKNOWN;
	if (IS(w, 7, W_HTTP1)) /* a response: the process is this connection's client */
		return;
	count(IS(w, 2, W_TLS)     ? UNMEASURED_TLS
	      : IS(w, 8, W_HTTP2) ? UNMEASURED_HTTP2
				  : UNMEASURED_PROTOCOL);
}

/* A connection of a server, NULL if it is new. */
static __always_inline struct connection *connection_of(const struct sock *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&connections, &key);
}

static __always_inline struct connection *add_connection(const struct sock *sk)
{
	static const struct connection none;
	__u64 key = (__u64)sk;

	if (bpf_map_update_elem(&connections, &key, &none, BPF_NOEXIST)) {
		count(UNMEASURED_FULL);
		return NULL;
	}
	return bpf_map_lookup_elem(&connections, &key);
}

/* The server has received bytes. */
static __always_inline void received(struct connection *c, struct sock *sk, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns();
	struct text t;

	if (!read_text(&t, bytes)) {
		c->phase = PHASE_UNKNOWN;
		count(UNMEASURED_CALL);
		return;
	}
	if (!begins_request(t.first[0])) {
		if (c->phase == PHASE_IDLE) {
			not_http(c, t.first[0]);
		} else if (c->phase == PHASE_REQUEST) {
			c->r.received += bytes;
			c->r.whole_ns = now;
		}
		return;
	}
	if (c->phase == PHASE_REQUEST) {
		c->phase = PHASE_UNKNOWN;
		count(UNMEASURED_PIPELINED);
		return;
	}
	if (c->phase == PHASE_HEAD || c->phase == PHASE_BODY)
		end(c, END_NEXT);
	c->r = (struct record){ .arrived_ns = arrival(sk, now),
				.read_ns = now,
				.whole_ns = now,
				.received = bytes,
				.post = IS(t.first[0], 6, W_POST) };
	set_ends(&c->r, sk);
	c->phase = PHASE_REQUEST;
}

/* A piece of the body was sent. */
static __always_inline void sent_body(struct record *r, __u64 now)
{
	if (!r->first_ns) {
		r->first_ns = now;
		r->events = 1;
		return;
	}
	if (now - r->last_ns > r->gap_ns)
		r->gap_ns = now - r->last_ns;
	if (now - r->first_ns >= first_event_ns)
		r->events++;
}

/* The server has sent bytes of a response. */
static __always_inline void sent(struct connection *c, struct sock *sk, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns();
	struct record *r = &c->r;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 unread = BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_una);
	bool last, stream_end;
	struct text t;

	if (!read_text(&t, bytes))
		t = (struct text){};
	last = ends_chunks(&t);
	stream_end = ends_stream(&t);
	if (c->phase == PHASE_REQUEST) {
		if (!IS(t.first[0], 7, W_HTTP1)) {
			c->phase = PHASE_UNKNOWN;
			count(t.first[0] ? UNMEASURED_PROTOCOL : UNMEASURED_CALL);
			return;
		}
		r->status = ((t.first[1] >> 8 & 0xf) * 10 + (t.first[1] >> 16 & 0xf)) * 10 +
			    (t.first[1] >> 24 & 0xf);
		if (r->status == 100) /* go on with the body */
			return;
		r->head_ns = now;
		c->phase = PHASE_HEAD;
		if (!ends_head(&t) || last) {
			c->phase = PHASE_BODY;
			sent_body(r, now);
		}
		r->last_ns = now;
	} else {
		if (!(last && bytes == 5) && !stream_end) {
			sent_body(r, now);
			r->last_ns = now;
		}
		c->phase = PHASE_BODY;
	}
	r->sent += bytes;
	if (unread > r->unread)
		r->unread = unread;
	r->srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
	c->streamed = ends_piece(&t) && !stream_end;
	if (last)
		end(c, END_TOLD);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_request, struct sock *sk, int result, int flags)
{
	struct connection *c;

	if (result <= 0 || flags & MSG_PEEK || !is_tcp(sk) || !is_server())
		return 0;
	c = connection_of(sk);
	if (!c && sk->__sk_common.skc_state != TCP_CLOSE && is_bound(sk))
		c = add_connection(sk);
	if (c && c->phase != PHASE_UNKNOWN)
		received(c, sk, result);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_response, struct sock *sk, int result)
{
	struct connection *c;

	if (!result || !is_tcp(sk) || !is_server())
		return 0;
	c = connection_of(sk);
	if (!c || c->phase == PHASE_IDLE || c->phase == PHASE_UNKNOWN)
		return 0;
	if (result > 0)
		sent(c, sk, result);
	else if (result == -EAGAIN)
		c->r.refused++;
	return 0;
}

/* The server closes a connection, or it breaks. If the client closes first, responses still go on. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_close, const struct sock *sk, int old, int new)
{
	__u64 key = (__u64)sk;
	struct connection *c;

	if (new != TCP_FIN_WAIT1 &&new != TCP_LAST_ACK &&new != TCP_CLOSE)
		return 0;
	c = bpf_map_lookup_elem(&connections, &key);
	if (!c)
		return 0;
	if (c->phase != PHASE_IDLE && c->phase != PHASE_UNKNOWN)
		end(c, END_CLOSED);
	bpf_map_delete_elem(&connections, &key);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps types in the object's BTF that Go needs. */
const struct record *export_record __attribute__((unused));
const enum phase *export_phase __attribute__((unused));
const enum response_end *export_end __attribute__((unused));
const enum unmeasured *export_unmeasured __attribute__((unused));
