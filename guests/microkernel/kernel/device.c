// The devices of the board (docs/board.md) and the two ways to end a run.
#include "kernel.h"

static volatile u32 *device(u32 physical)
{
	return (volatile u32 *)(physical - DEVICES_PHYSICAL + DEVICES);
}

#define UART 0x101f1000
#define TIMER 0x101e2000
#define INTERRUPT_CONTROLLER 0x10140000
#define LAB 0x101ff000
#define TIMER_LINE (1 << 4)

enum { UART_DATA = 0, UART_FLAGS = 6, UART_CONTROL = 12 };
enum { TIMER_LOAD = 0, TIMER_VALUE, TIMER_CONTROL, TIMER_CLEAR, SECOND_TIMER = 8 };
enum { CONTROL_ENABLE = 0x80, CONTROL_INTERRUPT = 0x20, CONTROL_32_BITS = 2, CONTROL_ONE_SHOT = 1 };
enum { INTERRUPT_STATUS = 0, INTERRUPT_ENABLE = 4 };
enum { LAB_EXIT = 7 };

void device_start(void)
{
	device(UART)[UART_CONTROL] = 0x301;
	device(TIMER)[SECOND_TIMER + TIMER_LOAD] = 0xffffffff;
	device(TIMER)[SECOND_TIMER + TIMER_CONTROL] = CONTROL_ENABLE | CONTROL_32_BITS;
	device(INTERRUPT_CONTROLLER)[INTERRUPT_ENABLE] = TIMER_LINE;
}

void console_write(char c)
{
	while (device(UART)[UART_FLAGS] & 0x20)
		;
	device(UART)[UART_DATA] = c;
}

void console_print(const char *text)
{
	while (*text)
		console_write(*text++);
}

void console_hexadecimal(u32 value)
{
	for (int shift = 28; shift >= 0; shift -= 4)
		console_write("0123456789abcdef"[value >> shift & 15]);
}

u32 clock_now(void)
{
	return ~device(TIMER)[SECOND_TIMER + TIMER_VALUE];
}

// One interrupt after N microseconds.
void timer_set(u32 microseconds)
{
	volatile u32 *timer = device(TIMER);
	timer[TIMER_CONTROL] = 0;
	timer[TIMER_LOAD] = microseconds ? microseconds : 1;
	timer[TIMER_CONTROL] = CONTROL_ENABLE | CONTROL_INTERRUPT | CONTROL_32_BITS | CONTROL_ONE_SHOT;
}

bool interrupt_pending(void)
{
	return device(INTERRUPT_CONTROLLER)[INTERRUPT_STATUS] & TIMER_LINE;
}

bool timer_acknowledge(void)
{
	bool was = interrupt_pending();
	device(TIMER)[TIMER_CLEAR] = 0;
	return was;
}

static int semihosting(u32 operation, volatile void *argument)
{
	register u32 r0 __asm__("r0") = operation;
	register volatile void *r1 __asm__("r1") = argument;
	// A supervisor call from supervisor mode overwrites lr where nobody answers it.
	__asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
	return r0;
}

void machine_exit(u32 status)
{
	volatile u32 block[2] = { 0x20026, status };
	device(LAB)[LAB_EXIT] = status; // ends the run here; QEMU ignores it and sees the next
	semihosting(0x20, block);
	for (;;)
		;
}

// The program's name and the options (SYS_GET_CMDLINE).
void command_line_read(char *buffer, u32 size)
{
	volatile u32 block[2] = { (u32)buffer, size };
	if (semihosting(0x15, block) != 0)
		buffer[0] = 0;
}
