// From the loader's entry (MMU and caches off, physical addresses) to main() at its virtual address.
#include "descriptors.h"
#include "layout.h"

// Where the entry of an address is in a page directory.
#define ENTRY(address) ((address) >> SECTION_SHIFT << 2)

	.file	"boot.S"	@ or the ELF names a temporary object, another one each time
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
	moveq	r8, #FIRST_SECTION
	movne	r8, #(FIRST_SECTION | FIRST_MUST_BE_ONE)
	orr	r8, r8, #(FIRST_PRIVILEGED | FIRST_DOMAIN(0))
	orr	r9, r8, #(FIRST_CACHED | FIRST_BUFFERED)

	@ The kernel's page directory.
	mov	r4, #DIRECTORY_PHYSICAL
	add	r2, r4, #DIRECTORY_BYTES
	mov	r3, r4
1:	str	r0, [r3], #4
	cmp	r3, r2
	bne	1b
	orr	r1, r9, #KERNEL_PHYSICAL
	str	r1, [r4, #ENTRY(KERNEL_PHYSICAL)]	@ this code, until the jump
	str	r1, [r2, #(ENTRY(KERNEL_VIRTUAL) - DIRECTORY_BYTES)] @ the kernel's section, the last one
	ldr	r1, =DEVICES_PHYSICAL
	orr	r1, r1, r8
	str	r1, [r2, #(ENTRY(DEVICES) - DIRECTORY_BYTES)]
	add	r3, r4, #ENTRY(WINDOW)
	mov	r1, r8					@ the window: neither cached nor buffered
	mov	r2, #WINDOW_MEGABYTES
1:	str	r1, [r3], #4
	add	r1, r1, #SECTION_BYTES
	subs	r2, r2, #1
	bne	1b
	add	r3, r4, #ENTRY(EVICTION)
	orr	r1, r9, #EVICTION
	str	r1, [r3]

	mcr	p15, 0, r4, c2, c0, 0
	mov	r1, #DOMAIN_CLIENT(0)		@ the kernel's
	mcr	p15, 0, r1, c3, c0, 0
	mcr	p15, 0, r0, c13, c0, 0		@ PID 0
	mrc	p15, 0, r1, c1, c0, 0
	ldr	r2, =(CONTROL_HIGH_VECTORS | CONTROL_INSTRUCTION_CACHE | CONTROL_BRANCH_PREDICTION | CONTROL_ONES | \
		      CONTROL_WRITE_BUFFER | CONTROL_DATA_CACHE | CONTROL_ALIGNMENT_FAULTS | CONTROL_MMU)
	orr	r1, r1, r2
	bic	r1, r1, #(CONTROL_BIG_ENDIAN | CONTROL_SYSTEM_PROTECTION | CONTROL_ROM_PROTECTION)
	ldr	lr, =in_virtual_memory
	mcr	p15, 0, r1, c1, c0, 0
	mrc	p15, 0, r1, c2, c0, 0
	mov	r1, r1
	sub	pc, pc, #4
	mov	pc, lr
	.ltorg

	.text
in_virtual_memory:
	ldr	r0, =(WINDOW + DIRECTORY_PHYSICAL + ENTRY(KERNEL_PHYSICAL))
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
