/* lab: the guest's hand on the simulator's instrumentation device (docs/board.md).
 *
 *   lab phase NUMBER [NAME]   cycles from here on belong to this phase
 *   lab exit STATUS           ends the run; on a machine without the instrumentation device nothing happens
 *   lab cycles                prints cycles and instructions since the start
 *
 * Built with the kernel's own header-only C library, so that it runs on every core.
 */

enum {
    BLOCK = 0x101ff000,
    ID = 0x4d4d554c,
    CYCLES_LOW = 0x08 / 4,
    CYCLES_HIGH = 0x0c / 4,
    INSTRUCTIONS_LOW = 0x10 / 4,
    INSTRUCTIONS_HIGH = 0x14 / 4,
    PHASE = 0x18 / 4,
    EXIT = 0x1c / 4,
    TEXT = 0x2c / 4,
    NAME_PHASE = 0x30 / 4,
};

static void print_pair(const char *name, unsigned low, unsigned high)
{
    /* printf of this library has no 64-bit division on ARMv4: print both halves. */
    printf("%s 0x%x%08x\n", name, high, low);
}

int main(int argc, char **argv)
{
    volatile unsigned *block;
    int memory = open("/dev/mem", O_RDWR | O_SYNC);

    if (memory < 0)
        return 1;
    block = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, BLOCK);
    if (block == MAP_FAILED || block[0] != ID)
        return 0;
    if (argc >= 3 && !strcmp(argv[1], "phase")) {
        if (argc > 3) {
            for (const char *c = argv[3]; *c; c++)
                block[TEXT] = *c;
            block[NAME_PHASE] = atoi(argv[2]);
        }
        block[PHASE] = atoi(argv[2]);
    } else if (argc >= 3 && !strcmp(argv[1], "exit")) {
        block[EXIT] = atoi(argv[2]);
    } else if (argc >= 2 && !strcmp(argv[1], "cycles")) {
        unsigned cycles = block[CYCLES_LOW], cycles_high = block[CYCLES_HIGH];
        unsigned instructions = block[INSTRUCTIONS_LOW], high = block[INSTRUCTIONS_HIGH];
        print_pair("cycles", cycles, cycles_high);
        print_pair("instructions", instructions, high);
    } else {
        return 2;
    }
    return 0;
}
