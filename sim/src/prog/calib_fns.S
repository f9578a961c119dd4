/* SPDX-License-Identifier: Apache-2.0 */
/* Three empty functions. The first begins with an instruction that Linux emulates under a
 * probe, the second with one that it must single-step, the third like libcuda's exports.
 * On arm64, bti is the only first instruction of functions that is emulated, so the first
 * begins with it. */
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
