@ Entry of every core: the first from the loader, the others from PSCI with their number in R0. Each gets
@ a stack and its own exception vectors; the first clears what C expects to be zero.
	.file	"start.S"	@ or the ELF names a temporary object, another one each time
	.syntax unified
	.cpu cortex-a7
	.arch_extension virt
	.section .text.start, "ax"
	.global _start
_start:
	ldr	r0, =__bss_start
	ldr	r1, =__bss_end
	mov	r2, #0
1:	cmp	r0, r1
	strlo	r2, [r0], #4
	blo	1b
	mov	r0, #0
	.global start_core
start_core:
	ldr	sp, =stacks
	add	r1, r0, #1
	add	sp, sp, r1, lsl #12
	ldr	r1, =vectors
	mcr	p15, 0, r1, c12, c0, 0		@ VBAR
	isb
	bl	core_main
1:	wfi
	b	1b

@ An exception that nothing expects ends the machine with a message.
	.align	5
	.global undefined, prefetch_abort
vectors:
	b	.
	b	undefined
	b	supervisor_call
	b	prefetch_abort
	b	data_abort
	b	.
	b	.
	b	.
undefined:
	mov	r0, #1
	b	unexpected
supervisor_call:
	mov	r0, #2
	b	unexpected
prefetch_abort:
	mov	r0, #3
	b	unexpected
data_abort:
	mov	r0, #4
unexpected:
	ldr	sp, =stacks
	add	sp, sp, #4096
	sub	r1, lr, #8
	bl	exception

@ hypervisor_call(function, first, second, third)
	.text
	.global hypervisor_call
hypervisor_call:
	hvc	#0
	bx	lr
