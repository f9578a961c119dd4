/* SPDX-License-Identifier: Apache-2.0 */
	.text
#define F(name) .globl name; .type name, %function; name:
#include "libc.def"
	.section .note.GNU-stack, "", %progbits
