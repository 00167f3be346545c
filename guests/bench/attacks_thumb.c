// A further attack of attacks.c: Thumb state where the kernel goes back to an instruction, or tells where one is.
#include "bench.h"

#define NAKED __attribute__((naked, noinline))
#define TO_THUMB ".word 0xe12fff13\n" // bx r3

static volatile u32 woken;

static void wakes_often(u32 unused)
{
	(void)unused;
	for (u32 time = clock_microseconds();; woken++)
		time = sleep_until(time + 200);
}

// Maps pages of the own space by a call from Thumb state. Returns how often the instruction before the call was
// executed, or all ones if the call fails.
NAKED static u32 map_in_thumb(u32 address, u32 pages)
{
	(void)address, (void)pages;
	__asm__("stmfd sp!, {r4-r11, lr}\n"
		"mov r2, r1\n"
		"mov r1, r0\n"
		"mov r0, #0\n"
		"mov r4, %0\n"
		"mov r7, #0\n"
		"mov r12, %1\n"
		"adr r3, 1f + 1\n" TO_THUMB
		".balign 4\n"
		"1: .hword 0x3701\n" // add r7, #1
		".hword 0xdf00\n"    // swi 0
		".hword 0x4778\n"    // bx pc
		".hword 0x46c0\n"
		"cmp r0, #0\n"
		"moveq r0, r7\n"
		"mvnne r0, #0\n"
		"ldmfd sp!, {r4-r11, pc}" ::"i"(READ_WRITE), "i"(CALL_MAP));
}

extern char enters_thumb[], undefined_at_word[], undefined_at_half[];

NAKED static void undefined_in_thumb(u32 at_half)
{
	(void)at_half;
	__asm__("cmp r0, #0\n"
		"adreq r3, undefined_at_word + 1\n"
		"adrne r3, undefined_at_half + 1\n"
		"enters_thumb: " TO_THUMB
		".balign 4\n"
		".space 8\n" // so that a wrong address is not that of enters_thumb
		"undefined_at_word: .hword 0xde00\n" // udf #0
		"undefined_at_half: .hword 0xde00\n");
}

// Where the kernel says that an undefined instruction is.
static u32 fault_address(u32 at_half)
{
	struct message m = { { 0 } };
	start_or_stop(0, undefined_in_thumb, at_half, PRIORITY);
	ipc_receive(processes[0].thread, &m);
	process_end(&processes[0]);
	return m.word[0] == FAULT_UNDEFINED && m.word[2] == m.word[1] ? m.word[1] : 0;
}

// On the kernel without checks of invariants: with them the thread that wakes takes all the time.
u32 thumb_calls(void)
{
	u32 stack = 0x00700000, wrong = 0;
	if (fault_address(0) == (u32)enters_thumb)
		return 0; // ARMv4 has no Thumb state
	if (fault_address(0) != (u32)undefined_at_word)
		wrong++, print("error: where an undefined instruction is\n");
	if (fault_address(1) != (u32)undefined_at_half)
		wrong++, print("error: where an undefined instruction between words is\n");
	map(0, stack, 1, READ_WRITE);
	thread_create(0, (u32)wakes_often, stack + PAGE_BYTES, 0, PRIORITY + 8, self());
	u32 before = woken;
	if (map_in_thumb(0x00800000, 100) != 1)
		wrong++, print("error: an instruction before a divided call is executed again\n");
	if (woken - before < 2)
		wrong++, print("error: nothing divided the call\n");
	return wrong;
}
