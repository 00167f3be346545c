/* Lines of text on the semihosting console, and random numbers: for programs that print the same on QEMU
 * and on our machines.
 */
typedef unsigned int word;

static char line[120], *end = line;

static inline void put(const char *text)
{
    while (*text)
        *end++ = *text++;
}

static inline void put_hex(word value, int digits)
{
    for (int digit = digits - 1; digit >= 0; digit--)
        *end++ = "0123456789abcdef"[value >> (4 * digit) & 15];
    *end++ = ' ';
}

static inline void flush(void)
{
    *end++ = '\n';
    *end = 0;
    register word r0 __asm__("r0") = 4;
    register word r1 __asm__("r1") = (word)line;
    __asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
    end = line;
}

static inline word get(word address)
{
    return *(volatile word *)address;
}

static inline void set(word address, word value)
{
    *(volatile word *)address = value;
}

static word state = 1;

/* Uniform in 0 .. limit - 1, by the upper bits of a linear congruential generator. */
static inline word below(word limit)
{
    state = state * 1664525 + 1013904223;
    return (state >> 16) % limit;
}

static inline word anything(void)
{
    return below(0x10000) << 16 | below(0x10000);
}
