// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

/*
 * Whether a process accepted the connection, or bound its port before it connected. connect() marks
 * a port that it chooses itself with -1.
 */
static __always_inline bool is_bound(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = (const struct inet_connection_sock *)sk;

	return BPF_CORE_READ(icsk, icsk_bind_hash, fastreuseport) >= 0;
}
