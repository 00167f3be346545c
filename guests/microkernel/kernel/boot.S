// From the loader's entry (MMU and caches off, physical addresses) to main() at its virtual address.
#include "layout.h"

	.section .boot, "ax"
	.global	start
start:
	msr	cpsr_c, #0xd3			@ supervisor mode, interrupts masked
	mov	r0, #0
	mcr	p15, 0, r0, c7, c7, 0		@ forget all lines
	mcr	p15, 0, r0, c7, c10, 4
	mcr	p15, 0, r0, c8, c7, 0		@ and translations

	@ XScale (ID 0x6905....) wants bit 4 of a section clear, the others want it set.
	mrc	p15, 0, r1, c0, c0, 0
	mov	r1, r1, lsr #16
	ldr	r2, =0x6905
	cmp	r1, r2
	moveq	r8, #0x002
	movne	r8, #0x012
	orr	r8, r8, #0x400			@ AP = 01: privileged read and write, domain 0
	orr	r9, r8, #0x00c			@ cached, buffered

	@ The kernel's page directory.
	mov	r4, #DIRECTORY_PHYSICAL
	add	r2, r4, #0x4000
	mov	r3, r4
1:	str	r0, [r3], #4
	cmp	r3, r2
	bne	1b
	orr	r1, r9, #KERNEL_PHYSICAL
	str	r1, [r4, #KERNEL_PHYSICAL >> 18]	@ this code, until the jump
	add	r3, r4, #0x3fc0
	str	r1, [r3, #0x3c]				@ the kernel's section, the last one
	ldr	r1, =DEVICES_PHYSICAL
	orr	r1, r1, r8
	str	r1, [r3, #0x38]
	add	r3, r4, #WINDOW >> 18
	mov	r1, r8					@ the window: neither cached nor buffered
	mov	r2, #WINDOW_MEGABYTES
1:	str	r1, [r3], #4
	add	r1, r1, #0x100000
	subs	r2, r2, #1
	bne	1b
	add	r3, r4, #EVICTION >> 18
	orr	r1, r9, #EVICTION
	str	r1, [r3]

	mcr	p15, 0, r4, c2, c0, 0
	mov	r1, #1				@ client of domain 0, the kernel's
	mcr	p15, 0, r1, c3, c0, 0
	mcr	p15, 0, r0, c13, c0, 0		@ PID 0
	mrc	p15, 0, r1, c1, c0, 0
	ldr	r2, =0x387f			@ high vectors, I-cache, branch prediction, write buffer,
	orr	r1, r1, r2			@ D-cache, alignment faults, MMU
	bic	r1, r1, #0x380			@ little-endian, no S and R bits
	ldr	lr, =in_virtual_memory
	mcr	p15, 0, r1, c1, c0, 0
	mrc	p15, 0, r1, c2, c0, 0
	mov	r1, r1
	sub	pc, pc, #4
	mov	pc, lr
	.ltorg

	.text
in_virtual_memory:
	ldr	r0, =(WINDOW + DIRECTORY_PHYSICAL + (KERNEL_PHYSICAL >> 18))
	mov	r1, #0
	str	r1, [r0]				@ a program's section from now on
	mcr	p15, 0, r1, c8, c7, 0
	ldr	sp, =cpu
	ldr	r0, =bss_start
	ldr	r1, =bss_end
	mov	r2, #0
1:	cmp	r0, r1
	strlo	r2, [r0], #4
	blo	1b
	b	main
	.ltorg
