/* SPDX-License-Identifier: Apache-2.0 */
/* Entry of a dynamic program: passes main to the C library that is loaded. */
	.text
	.globl	_start
	.type	_start, %function
_start:
	.cfi_startproc
#if defined(__x86_64__)
	.cfi_undefined %rip
	xor	%ebp, %ebp
	mov	%rdx, %r9		/* rtld_fini */
	pop	%rsi			/* argc */
	mov	%rsp, %rdx		/* argv */
	and	$-16, %rsp
	push	%rax
	push	%rsp			/* stack_end */
	xor	%r8d, %r8d		/* fini */
	xor	%ecx, %ecx		/* init */
	lea	main(%rip), %rdi
	call	__libc_start_main@PLT
	hlt
#else
	.cfi_undefined x30
	mov	x29, #0
	mov	x30, #0
	mov	x5, x0			/* rtld_fini */
	ldr	x1, [sp]		/* argc */
	add	x2, sp, #8		/* argv */
	mov	x6, sp			/* stack_end */
	adrp	x0, main
	add	x0, x0, :lo12:main
	mov	x3, #0			/* init */
	mov	x4, #0			/* fini */
	bl	__libc_start_main
	brk	#0
#endif
	.cfi_endproc
	.size	_start, .-_start
	.section .note.GNU-stack, "", %progbits
