/* SPDX-License-Identifier: Apache-2.0 */
/* The exports. Each begins like those of the real library, since the first bytes decide
 * what a probe costs: on x86-64 thirty bytes of
 *
 *	+0	cmpl	$COLD, sim_state(%rip)
 *	+10	je	+18
 *	+12	jmp	*table(%rip)
 *	+18	the second path: set up, then continue like the first
 *
 * The library starts cold, so the first call of the process takes the second path.
 */
#if defined(__x86_64__)

	.macro	stub name
	.globl	\name
	.type	\name, @function
	.balign	16
\name:
	.cfi_startproc
	cmpl	$0x321cba00, sim_state(%rip)
	je	1f
	jmp	*sim_table+8*index(%rip)
1:	movl	$index, %eax
	jmp	sim_cold
	.byte	0x66, 0x90
	.cfi_endproc
	.size	\name, .-\name
	.set	index, index+1
	.endm

	.section .text.cold, "ax", @progbits
	.type	sim_cold, @function
sim_cold:	/* all argument registers are live; eax is the table's index */
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	push	%rax
	push	%rax
	call	sim_warm
	pop	%rax
	pop	%rax
	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	lea	sim_table(%rip), %r11
	jmp	*(%r11,%rax,8)
	.cfi_endproc
	.size	sim_cold, .-sim_cold

#elif defined(__aarch64__)

	.macro	stub name
	.globl	\name
	.type	\name, %function
	.balign	16
\name:
	.cfi_startproc
	adrp	x16, sim_state
	ldr	w17, [x16, :lo12:sim_state]
	cbz	w17, 1f
	adrp	x16, sim_table+8*index
	ldr	x16, [x16, :lo12:sim_table+8*index]
	br	x16
1:	mov	w17, #index
	b	sim_cold
	.cfi_endproc
	.size	\name, .-\name
	.set	index, index+1
	.endm

	.section .text.cold, "ax", %progbits
	.type	sim_cold, %function
sim_cold:	/* x0-x7 are live; w17 is the table's index */
	.cfi_startproc
	stp	x29, x30, [sp, #-96]!
	.cfi_def_cfa_offset 96
	.cfi_offset x29, -96
	.cfi_offset x30, -88
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x17, [sp, #80]
	bl	sim_warm
	ldr	x17, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #96
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	adrp	x16, sim_table
	add	x16, x16, :lo12:sim_table
	ldr	x16, [x16, x17, lsl #3]
	br	x16
	.cfi_endproc
	.size	sim_cold, .-sim_cold

#endif

	.text
	.set	index, 0
#define X(name, since) stub name;
#define NO X
#define OLD X
#include "exports.def"
#undef X
#undef NO
#undef OLD

	.section .data.rel.ro, "aw"
	.balign	8
	.globl	sim_table
	.hidden	sim_table
sim_table:
#define X(name, since) .quad impl_##name;
#define NO(name, since) .quad impl_unsupported;
#define OLD(name, since) .quad impl_of_32_bits;
#include "exports.def"
#undef X
#undef NO
#undef OLD

	.hidden	sim_state
	.hidden	sim_warm
	.section .note.GNU-stack, "", %progbits
