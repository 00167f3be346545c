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

static char command_line_at(int position)
{
	return system_call(CALL_OPTION, position, 0, 0, 0, 0, 0);
}

// The position after "name=" on the command line, or -1.
static int option_at(const char *name)
{
	char before = ' ';
	for (int at = 0;; at++) {
		char c = command_line_at(at);
		if (!c)
			return -1;
		if (before == ' ') {
			int length = 0;
			while (name[length] && command_line_at(at + length) == name[length])
				length++;
			if (!name[length] && command_line_at(at + length) == '=')
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
		char c = command_line_at(at);
		if (!*value)
			return !c || c == ' ';
		if (c != *value)
			return false;
	}
}

// Whether the word that begins at a position of the command line is in a list, whole or until its "=".
static bool is_listed(int at, const char *list)
{
	while (*list) {
		int length = 0;
		while (list[length] != ' ' && command_line_at(at + length) == list[length])
			length++;
		char behind = command_line_at(at + length);
		if (list[length] == ' ' && (behind == '=' || behind == ' ' || !behind))
			return true;
		while (*list++ != ' ')
			;
	}
	return false;
}

void options_allow(const char *list, const char *further)
{
	int word = 0;
	// The first word is the image's path, which may hold anything.
	bool is_path = true;
	for (int at = 0;; at++) {
		char c = command_line_at(at);
		if (!c)
			return;
		if (c == ' ') {
			word = at + 1;
			is_path = false;
		}
		if (c != '=' || is_path || is_listed(word, list) || is_listed(word, further))
			continue;
		print("there is no option ");
		while ((c = command_line_at(word++)) && c != ' ')
			put(c);
		print("; this program takes: %s%s\n", list, further);
		machine_exit(2);
	}
}

u32 option_number(const char *name, u32 otherwise)
{
	int at = option_at(name);
	if (at < 0)
		return otherwise;
	u32 value = 0;
	for (;; at++) {
		char c = command_line_at(at);
		if (!c || c == ' ')
			return value;
		if (c < '0' || c > '9' || value > 0x0fffffff) {
			print("%s= takes a number below 2684354560\n", name);
			machine_exit(2);
		}
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
