#include <stdarg.h>

#include "system.h"

static void put(char c)
{
	system_call(CALL_PRINT, c, 0, 0, 0, 0, 0);
}

static void put_number(uint64_t value, u32 base)
{
	char digits[21];
	u32 count = 0;
	do
		digits[count++] = "0123456789abcdef"[value % base];
	while (value /= base);
	while (count)
		put(digits[--count]);
}

void print(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	for (; *format; format++) {
		if (*format != '%') {
			put(*format);
			continue;
		}
		switch (*++format) {
		case 'u':
			put_number(va_arg(arguments, u32), 10);
			break;
		case 'U':
			put_number(va_arg(arguments, uint64_t), 10);
			break;
		case 'x':
			put_number(va_arg(arguments, u32), 16);
			break;
		case 's':
			for (const char *text = va_arg(arguments, const char *); *text; text++)
				put(*text);
			break;
		}
	}
	va_end(arguments);
}

// The position after "name=" on the command line, or -1.
static int option_at(const char *name)
{
	char before = ' ';
	for (int at = 0;; at++) {
		char c = system_call(CALL_OPTION, at, 0, 0, 0, 0, 0);
		if (!c)
			return -1;
		if (before == ' ') {
			int length = 0;
			while (name[length] && (char)system_call(CALL_OPTION, at + length, 0, 0, 0, 0, 0) == name[length])
				length++;
			if (!name[length] && (char)system_call(CALL_OPTION, at + length, 0, 0, 0, 0, 0) == '=')
				return at + length + 1;
		}
		before = c;
	}
}

bool option(const char *name, const char *value)
{
	int at = option_at(name);
	if (at < 0)
		return false;
	for (;; at++, value++) {
		char c = system_call(CALL_OPTION, at, 0, 0, 0, 0, 0);
		if (!*value)
			return !c || c == ' ';
		if (c != *value)
			return false;
	}
}

u32 option_number(const char *name, u32 otherwise)
{
	int at = option_at(name);
	if (at < 0)
		return otherwise;
	u32 value = 0;
	for (;; at++) {
		char c = system_call(CALL_OPTION, at, 0, 0, 0, 0, 0);
		if (c < '0' || c > '9')
			return value;
		value = value * 10 + (c - '0');
	}
}

// Marsaglia's xorshift with his first triple.
u32 random_next(u32 *state)
{
	u32 x = *state;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

extern char text_start[], text_end[], data_start[], data_end[], stack_bottom[], stack_top[];

bool process_start(struct process *process, void (*program)(u32), u32 argument, u32 priority, u32 pager)
{
	u32 space = space_create();
	if (is_error(space))
		return false;
	process->space = space;
	u32 text = (u32)text_start, data = (u32)data_start, stack = (u32)stack_top - PAGE_BYTES;
	if (share(0, text, space, text, ((u32)text_end - text) / PAGE_BYTES, RIGHT_READ) < 0 ||
	    copy(0, data, space, data, ((u32)data_end - data) / PAGE_BYTES) < 0 ||
	    map(space, stack, 1, RIGHT_READ | RIGHT_WRITE) < 0) {
		space_destroy(space);
		return false;
	}
	process->thread = thread_create(space, (u32)program, (u32)stack_top, argument, priority, pager);
	if (is_error(process->thread)) {
		space_destroy(space);
		return false;
	}
	return true;
}

void process_end(struct process *process)
{
	space_destroy(process->space);
}

void lab_start(u32 space)
{
	map_device(space, (u32)LAB, 0x101ff000);
}

void lab_name(enum lab what, u32 number, const char *name)
{
	while (*name)
		LAB[LAB_TEXT] = *name++;
	LAB[what] = number;
}
