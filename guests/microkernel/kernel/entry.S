// The exception vectors, the ways into and out of the kernel, and the fast paths of IPC.
//
// There is one kernel stack and one processor record, and supervisor mode's sp always points to the
// record on entry: the stack grows down from it, thread records lie above it. The kernel runs with
// interrupts masked, so exceptions come from user mode only.
#include "descriptors.h"
#include "layout.h"

	.file	"entry.S"	@ or the ELF names a temporary object, another one each time
	.section .vectors, "ax"
	.global	vectors, vector_supervisor_call
vectors:
	b	unexpected
	b	undefined
vector_supervisor_call:
	b	enter_general			@ main() points it to the scheme's fast path
	b	prefetch_abort
	b	data_abort
	b	unexpected
	b	interrupt
	b	unexpected

// ---- fast paths --------------------------------------------------------------------------------
// A call or reply-and-wait whose partner waits for it, in another address space or the same. Nothing
// is queued and nothing but the message registers, sp, lr and pc moves: the sender leaves the
// processor to its partner without passing through the ready queues. What it touches: these
// instructions (7 lines), the processor's record, and the hot line of each thread.
//
// r0 = whom to send to, r1 = whom to receive from then; r4-r9 pass through untouched.
// Left for the general path as found: r0, r1, r4-r9.
//
// Both sides are in ARM state: a caller in Thumb state takes the general path, and the record of one that
// waits in Thumb state says so in bit 0 of its pc (ipc.c). So the receiver may have the sender's SPSR.

	.macro	PREPARE
	mrs	r3, spsr
	tst	r3, #STATUS_THUMB
	teqeq	r12, #0				@ is it IPC?
	bne	enter_general
	ldr	r3, [sp, #CPU_CURRENT]
	mov	r2, r0, lsl #(32 - ID_INDEX_BITS)
	mov	r2, r2, lsr #(32 - ID_INDEX_BITS)
	add	r2, r2, r2, lsl #2
	add	r2, sp, r2, lsl #5		@ r2 = the partner's record
	ldr	r10, [r2, #THREAD_ID]
	ldr	r11, [r2, #THREAD_WAITS_FOR]
	ldr	r12, [r3, #THREAD_ID]
	teq	r10, r0
	bne	general_ipc			@ no such thread
	teq	r11, r12
	cmnne	r11, #1
	bne	general_ipc			@ it does not wait for us
	teq	r1, r0
	beq	1f				@ a call: the partner cannot be sending to us
	ldr	r10, [r3, #THREAD_SENDERS]
	cmn	r1, #1
	teqeq	r10, #0
	bne	general_ipc			@ not "wait for anybody", or somebody is already there
1:	ldr	r10, [sp, #CPU_READY_PRIORITY]
	and	r11, r0, #ID_PRIORITY_MASK
	cmp	r11, r10
	blo	general_ipc			@ the scheduler has something better to run
	ldr	r10, [r2, #THREAD_PC]
	ldr	r11, [r2, #THREAD_FAST_SWITCH]
	tst	r10, #1
	bne	general_ipc			@ it waits in Thumb state
	teq	r11, #0
	.endm					@ eq: the scheme wants to look at this switch

	.macro	SAVE_SENDER
	str	r1, [r3, #THREAD_WAITS_FOR]
	str	lr, [r3, #THREAD_PC]
	add	r3, r3, #THREAD_SP
	stmia	r3, {sp, lr}^
	.endm

	.macro	RESTORE_RECEIVER
	mov	r1, #0				@ the receiver sees neither the sender's r1
	str	r1, [r2, #THREAD_WAITS_FOR]
	str	r2, [sp, #CPU_CURRENT]
	ldr	lr, [r2, #THREAD_PC]
	add	r2, r2, #THREAD_SP
	ldmia	r2, {sp, lr}^
	mov	r0, r12				@ the receiver learns who sent; also the slot that ldm ^ needs
	mov	r2, #0				@ nor the kernel's values
	mov	r3, #0
	mov	r10, #0
	mov	r11, #0
	movs	pc, lr
	.endm

	.global	enter_fass, fast_path_dirty
	.balign	32
enter_fass:
	PREPARE
	beq	fass_without_domain
fass_with_domain:
	@ FASS: the domains that this enables may now get into the caches and the TLB.
	ldr	r10, [sp, #CPU_DIRTY]
	orr	r10, r10, r11
fast_path_dirty:
	str	r10, [sp, #CPU_DIRTY]
	ldr	r10, [r2, #THREAD_PID]
	mcr	p15, 0, r11, c3, c0, 0		@ no table, TLB or cache operation: the paper's section 2.3
	mcr	p15, 0, r10, c13, c0, 0
	SAVE_SENDER
	RESTORE_RECEIVER

fass_without_domain:
	stmfd	sp!, {r0 - r3, r12, lr}
	mov	r0, r2
	bl	fass_assign
	mov	r11, r0
	ldmfd	sp!, {r0 - r3, r12, lr}
	b	fass_with_domain

	.global	enter_fcse, fast_path_translations
	.balign	32
enter_fcse:
	PREPARE
	beq	general_ipc
	@ FCSE: the caches stay, but the TLB has no address-space tags (the paper's section 3). In best
	@ effort mode the word also says that no switch from or to its space need flush the caches.
	ldr	r10, [r3, #THREAD_FAST_SWITCH]
	teq	r10, #0
	beq	general_ipc
	ldr	r10, [r2, #THREAD_PID]
	mcr	p15, 0, r11, c2, c0, 0
fast_path_translations:
	mcr	p15, 0, r11, c8, c7, 0
	mcr	p15, 0, r10, c13, c0, 0
	SAVE_SENDER
	RESTORE_RECEIVER

	.global	enter_flush, fast_path_flush_data, fast_path_flush_instructions, fast_path_flush_translations
	.balign	32
enter_flush:
	PREPARE
	beq	general_ipc
	@ The flushing kernel: the core's two operations keep r4-r11. Nothing of the old lines is needed
	@ afterwards but the processor's record; the sender's id waits in the receiver's.
	SAVE_SENDER
	str	r12, [r2, #THREAD_WAITS_FOR]
	ldr	r0, [sp, #CPU_FAST_FLUSHES]
	mov	r10, r2
	add	r0, r0, #1
	str	r0, [sp, #CPU_FAST_FLUSHES]
	mov	lr, pc
fast_path_flush_data:
	ldr	pc, [sp, #CPU_CLEAN_AND_INVALIDATE_DATA]
	mov	lr, pc
fast_path_flush_instructions:
	ldr	pc, [sp, #CPU_INVALIDATE_INSTRUCTIONS]
	mov	r2, r10
	mov	r1, #0
	mcr	p15, 0, r11, c2, c0, 0
fast_path_flush_translations:
	mcr	p15, 0, r1, c8, c7, 0
	ldr	r12, [r2, #THREAD_WAITS_FOR]
	RESTORE_RECEIVER

// ---- the general way in ------------------------------------------------------------------------
general_ipc:
	mov	r2, #0				@ the fast path used them; the call was IPC
	mov	r10, #0
	mov	r11, #0
	mov	r12, #0

	.global	enter_general
enter_general:
	ldr	r3, [sp, #CPU_CURRENT]
	str	lr, [r3, #THREAD_PC]
	add	lr, r3, #THREAD_REGISTERS
	mov	r3, #0				@ the record's address is not the program's business
	stmia	lr, {r0 - r12}
	sub	lr, lr, #(THREAD_REGISTERS - THREAD_SP)
	stmia	lr, {sp, lr}^
	mrs	r2, spsr
	str	r2, [lr, #(THREAD_CPSR - THREAD_SP)]
	bl	system_call
	.global	resume
resume:
	ldr	sp, =cpu
	ldr	r0, [sp, #CPU_CURRENT]
	ldr	r1, [r0, #THREAD_CPSR]
	ldr	lr, [r0, #THREAD_PC]
	msr	spsr_cxsf, r1
	add	r1, r0, #THREAD_SP
	ldmia	r1, {sp, lr}^
	nop
	add	r0, r0, #THREAD_REGISTERS
	ldmia	r0, {r0 - r12}
	movs	pc, lr
	.ltorg

	.text
// ---- interrupts and faults ---------------------------------------------------------------------
// Their modes have a stack pointer of their own, which points to cpu.scratch.
	.macro	FROM_EXCEPTION offset
	sub	lr, lr, #\offset
	stmia	sp, {r0, lr}
	mrs	r0, spsr
	str	r0, [sp, #8]
	mov	r0, sp
	msr	cpsr_c, #0xd3			@ supervisor mode
	ldr	lr, [sp, #CPU_CURRENT]
	add	lr, lr, #(THREAD_REGISTERS + 4)
	stmia	lr, {r1 - r12}
	ldmia	r0, {r1, r2, r3}		@ r0, pc, cpsr of the interrupted program
	tst	r3, #0xf
	bne	in_kernel
	str	r1, [lr, #-4]
	sub	lr, lr, #(THREAD_REGISTERS + 4 - THREAD_SP)
	stmia	lr, {sp, lr}^
	str	r2, [lr, #(THREAD_PC - THREAD_SP)]
	str	r3, [lr, #(THREAD_CPSR - THREAD_SP)]
	.endm

interrupt:
	FROM_EXCEPTION 4
	bl	interrupted
	b	resume
data_abort:
	FROM_EXCEPTION 8
	mov	r0, #0
	bl	faulted
	b	resume
prefetch_abort:
	FROM_EXCEPTION 4
	mov	r0, #1
	bl	faulted
	b	resume
undefined:
	FROM_EXCEPTION 4
	mov	r0, #2
	bl	faulted
	b	resume
unexpected:
	mov	r1, lr
	b	in_kernel_1
in_kernel:
	mov	r1, r2
in_kernel_1:
	ldr	sp, =cpu
	ldr	r0, =in_kernel_text
	b	panic
in_kernel_text:
	.asciz	"exception in the kernel at"
	.balign	4

// Points the stack pointers of the exception modes to cpu.scratch. r0 = cpu.scratch
	.global	exception_stacks
exception_stacks:
	msr	cpsr_c, #0xd2			@ interrupt
	mov	sp, r0
	msr	cpsr_c, #0xd7			@ abort
	mov	sp, r0
	msr	cpsr_c, #0xdb			@ undefined
	mov	sp, r0
	msr	cpsr_c, #0xd3
	mov	pc, lr
	.ltorg

	.section .user, "a"
	.global	user_image, user_image_end
	.balign	4
user_image:
	.incbin	USER_IMAGE
user_image_end:
