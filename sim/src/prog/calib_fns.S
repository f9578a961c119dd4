/* SPDX-License-Identifier: Apache-2.0 */
/* Three functions that do nothing, by how they begin: with an instruction that the
 * kernel emulates under a probe, with one that it must step over, and as the
 * exports of libcuda do. On arm64 nothing that a function begins with is emulated
 * but bti, so the first begins with that. */
	.macro	begin name
	.globl	\name
	.type	\name, %function
	.balign	16
\name:
	.cfi_startproc
	.endm
	.macro	finish name
	.cfi_endproc
	.size	\name, .-\name
	.endm

	.text
	begin	ingero_calib_push
#if defined(__x86_64__)
	push	%rbp
	pop	%rbp
	ret
#else
	hint	#34	/* bti c */
	ret
#endif
	finish	ingero_calib_push

	begin	ingero_calib_stepped
#if defined(__x86_64__)
	mov	%edi, %eax
	ret
#else
	mov	w0, w1
	ret
#endif
	finish	ingero_calib_stepped

	begin	ingero_calib_stub
#if defined(__x86_64__)
	cmpl	$0x321cba00, calib_state(%rip)
	je	1f
	jmp	*calib_table(%rip)
1:	movl	$4, %eax
	ret
	.balign	2
#else
	adrp	x16, calib_table
	ldr	x16, [x16, :lo12:calib_table]
	br	x16
#endif
	finish	ingero_calib_stub

calib_target:
	ret

	.data
	.balign	8
calib_table:
	.quad	calib_target
calib_state:
	.long	0
	.section .note.GNU-stack, "", %progbits
