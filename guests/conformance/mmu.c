/* Every kind of page, permission, domain and fault of the ARMv4/v5 MMU, one line a case.
 *
 * Accesses are made by probe_*() in start-up code (mmu_start.S), whose aborts are noted in `seen`.
 * A line is: what was tried, then the value read or "ok", or the fault's status and address. The
 * caches stay off here: this program asks what the tables mean, and the mutants ask the rest.
 */
typedef unsigned int word;

struct fault {
    word kind;          /* 0 none, 3 prefetch, 4 data */
    word status;
    word address;
    word pc;
};

extern volatile struct fault seen;
word probe_load(word address, word user);
void probe_store(word address, word value, word user);
word probe_load_byte(word address, word user);
word probe_fetch(word address, word user);
word probe_load_half(word address, word user);

#define WRITE_CP15(value, crn, crm, op2) \
    __asm__ volatile("mcr p15, 0, %0, " #crn ", " #crm ", " #op2 : : "r"(value) : "memory")

enum {
    TABLE = 0x00804000,
    COARSE = 0x00800000,
    FINE = 0x00801000,          /* 1,024 entries */
    MEMORY = 0x00900000,        /* what the pages show: each word holds its address */
    VIEW = 0x50000000,          /* where they are mapped */
    CONTROL = 0x00000079,       /* MMU on, caches off, alignment faults off */
    ALIGNMENT = 2,
    SYSTEM = 0x100,
    ROM = 0x200,
};

static char line[256], *end = line;

static void put(const char *text)
{
    while (*text)
        *end++ = *text++;
}

static void put_hex(word value)
{
    for (int digit = 7; digit >= 0; digit--)
        *end++ = "0123456789abcdef"[value >> (4 * digit) & 15];
    *end++ = ' ';
}

static void flush(void)
{
    *end++ = '\n';
    *end = 0;
    register word r0 __asm__("r0") = 4;
    register word r1 __asm__("r1") = (word)line;
    __asm__ volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory", "lr");
    end = line;
}

static void set_control(word value)
{
    WRITE_CP15(value, c1, c0, 0);
    __asm__ volatile("nop\nnop\nnop\nnop");
}

static void entry(word table, word index, word value)
{
    ((volatile word *)table)[index] = value;
    WRITE_CP15(0, c8, c7, 0);
}

static void result(word value, int is_load)
{
    if (seen.kind == 4) {
        put("data abort ");
        put_hex(seen.status & 0xff);
        put_hex(seen.address);
    } else if (seen.kind == 3) {
        put("prefetch abort ");
        put_hex(seen.pc);
    } else if (is_load) {
        put_hex(value);
    } else {
        put("ok ");
    }
    flush();
}

enum { LOAD, STORE, FETCH, ACCESSES };

/* Tries one access and prints a line that begins with the name and the numbers given. */
static void try_access(const char *name, word a, word b, word address, int access, word user)
{
    word value = 0;
    put(name);
    *end++ = ' ';
    put_hex(a);
    put_hex(b);
    put_hex(address);
    put(user ? "user " : "privileged ");
    put(access == LOAD ? "load: " : access == STORE ? "store: " : "fetch: ");
    seen.kind = 0;
    if (access == LOAD)
        value = probe_load(address, user);
    else if (access == STORE)
        probe_store(address, 0xe1a0f00e, user);      /* mov pc, lr: fetches stay possible */
    else
        value = probe_fetch(address, user);
    result(value, access != STORE);
}

static void try_all(const char *name, word a, word b, word address)
{
    for (word user = 0; user < 2; user++)
        for (int access = LOAD; access < ACCESSES; access++)
            try_access(name, a, b, address, access, user);
}

/* The pages must be executable: each word is the instruction mov pc, lr, except where loads look. */
static void fill(void)
{
    for (word i = 0; i < 0x40000; i++)
        ((volatile word *)MEMORY)[i] = 0xe1a0f00e;
    for (word i = 0; i < 0x100000; i += 1024)
        *(volatile word *)(MEMORY + i + 4) = MEMORY + i + 4;
}

static void section_kinds(void)
{
    for (word permission = 0; permission < 4; permission++)
        for (word system_rom = 0; system_rom < 4; system_rom++) {
            set_control(CONTROL | (system_rom & 1 ? SYSTEM : 0) | (system_rom & 2 ? ROM : 0));
            /* S and R together are reserved for AP 0 (B3.6.1). */
            if (system_rom == 3 && permission == 0)
                continue;
            entry(TABLE, VIEW >> 20, MEMORY | permission << 10 | 0x12);
            try_all("section", permission, system_rom, VIEW + 8);
            entry(TABLE, VIEW >> 20, COARSE | 0x11);
            entry(COARSE, 0, MEMORY | permission << 4 | permission << 6 | permission << 8 | permission << 10 | 2);
            try_all("small page", permission, system_rom, VIEW + 8);
        }
    set_control(CONTROL);
}

static void domains(void)
{
    for (word domain = 0; domain < 16; domain++) {
        for (word value = 0; value < 4; value++) {
            if (!domain && value != 1)
                continue;               /* the program itself lives in domain 0 */
            WRITE_CP15((value << (2 * domain)) | 1, c3, c0, 0);
            entry(TABLE, VIEW >> 20, MEMORY | 1 << 10 | domain << 5 | 0x12);
            try_all("domain of a section", domain, value, VIEW + 8);
            entry(TABLE, VIEW >> 20, COARSE | domain << 5 | 0x11);
            entry(COARSE, 0, MEMORY | 0x550 | 2);
            try_all("domain of a page", domain, value, VIEW + 8);
        }
    }
    WRITE_CP15(1, c3, c0, 0);
}

/* One permission for each quarter of a page. */
static void quarters(void)
{
    entry(TABLE, VIEW >> 20, COARSE | 0x11);
    for (word permissions = 0; permissions < 256; permissions += 27) {
        for (word i = 0; i < 16; i++)
            entry(COARSE, 16 + i, MEMORY | permissions << 4 | 1);
        entry(COARSE, 1, (MEMORY + 0x1000) | permissions << 4 | 2);
        for (word quarter = 0; quarter < 4; quarter++) {
            try_all("quarter of a large page", permissions, quarter, VIEW + 0x10000 + quarter * 0x4000 + 8);
            try_all("quarter of a small page", permissions, quarter, VIEW + 0x1000 + quarter * 0x400 + 8);
        }
    }
}

static void fine_tables(void)
{
    entry(TABLE, VIEW >> 20, FINE | 0x13);
    for (word permission = 0; permission < 4; permission++) {
        entry(FINE, 0, MEMORY | permission << 4 | 3);
        try_all("tiny page", permission, 0, VIEW + 8);
        for (word i = 0; i < 4; i++)
            entry(FINE, 4 + i, (MEMORY + 0x1000) | permission * 0x550 | 2);
        try_all("small page in a fine table", permission, 0, VIEW + 0x1c08);
        for (word i = 0; i < 64; i++)
            entry(FINE, 64 + i, (MEMORY + 0x10000) | permission * 0x550 | 1);
        try_all("large page in a fine table", permission, 0, VIEW + 0x1f008);
    }
}

/* Which physical address does each kind of page give? */
static void addresses(void)
{
    entry(TABLE, VIEW >> 20, MEMORY | 0xc12);
    for (word offset = 0; offset < 0x100000; offset += 0x11000 - 0x400)
        try_access("address by section", offset, 0, VIEW + (offset & ~0x3ffu) + 4, LOAD, 1);
    entry(TABLE, VIEW >> 20, COARSE | 0x11);
    for (word i = 0; i < 16; i++)
        entry(COARSE, i, (MEMORY + 0x30000) | 0xff1);
    for (word i = 16; i < 32; i++)
        entry(COARSE, i, (MEMORY + 0x40000 + (i ^ 5) * 0x1000) | 0xff2);
    for (word offset = 0; offset < 0x20000; offset += 0x1400)
        try_access("address by coarse table", offset, 0, VIEW + (offset & ~0x3ffu) + 4, LOAD, 1);
    entry(TABLE, VIEW >> 20, FINE | 0x13);
    for (word i = 0; i < 64; i++)
        entry(FINE, i, (MEMORY + (i ^ 9) * 0x400) | 0x33);
    for (word offset = 0; offset < 0x10000; offset += 0x400)
        try_access("address by fine table", offset, 0, VIEW + offset + 4, LOAD, 1);
}

static void translation_faults(void)
{
    entry(TABLE, VIEW >> 20, 0);
    try_all("no first level", 0, 0, VIEW + 8);
    entry(TABLE, VIEW >> 20, COARSE | 3 << 5 | 0x11);
    WRITE_CP15(0x41, c3, c0, 0);
    entry(COARSE, 0, 0);
    try_all("no second level", 0, 0, VIEW + 8);
    WRITE_CP15(1, c3, c0, 0);
    entry(TABLE, VIEW >> 20, FINE | 0x13);
    entry(FINE, 0, 0);
    try_all("no entry in a fine table", 0, 0, VIEW + 8);
}

static void alignment(void)
{
    entry(TABLE, VIEW >> 20, MEMORY | 0xc12);
    set_control(CONTROL | ALIGNMENT);
    for (word offset = 0; offset < 4; offset++) {
        try_access("alignment", offset, 0, VIEW + 4 + offset, LOAD, 1);
        try_access("alignment", offset, 0, VIEW + 4 + offset, STORE, 1);
        put("alignment of a halfword ");
        put_hex(offset);
        seen.kind = 0;
        result(probe_load_half(VIEW + 0x404 + offset, 1), 1);
        put("alignment of a byte ");
        put_hex(offset);
        seen.kind = 0;
        result(probe_load_byte(VIEW + 0x404 + offset, 1), 1);
    }
    /* An alignment fault comes before every other one. */
    entry(TABLE, VIEW >> 20, 0);
    try_access("alignment and no translation", 0, 0, VIEW + 5, LOAD, 1);
    set_control(CONTROL);
}

/* Process IDs: the low 32 MB are moved, what is above is not. */
static void processes(void)
{
    static const word numbers[] = {0, 1, 2, 3, 5, 17, 31, 63};
    word own[16];

    for (word i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        word slot = numbers[i] << 5;            /* first-level index of its window */
        for (word k = 0; k < 16; k++) {
            own[k] = ((volatile word *)TABLE)[k];
            entry(TABLE, slot + k, own[k]);
        }
        entry(TABLE, slot + 16, MEMORY | 0xc12);
        entry(TABLE, slot + 17, 0);
        entry(TABLE, VIEW >> 20, (MEMORY & 0xfff00000) | 0xc12);
        WRITE_CP15(numbers[i] << 25, c13, c0, 0);
        __asm__ volatile("nop\nnop\nnop\nnop");
        try_all("process", numbers[i], 0, 0x01000000 + 8);
        try_all("process, no translation", numbers[i], 0, 0x01100000 + 8);
        try_all("process, high address", numbers[i], 0, VIEW + 8);
        WRITE_CP15(0, c13, c0, 0);
        __asm__ volatile("nop\nnop\nnop\nnop");
        if (slot)
            for (word k = 0; k < 18; k++)
                entry(TABLE, slot + k, 0);
    }
}

int main(void)
{
    word *table = (word *)TABLE;

    for (word i = 0; i < 4096; i++)
        table[i] = 0;
    for (word i = 0; i < 16; i++)
        table[i] = i << 20 | 0xc12;
    table[0x101] = 0x10100c12;
    for (word i = 0; i < 256; i++)
        ((word *)COARSE)[i] = 0;
    for (word i = 0; i < 1024; i++)
        ((word *)FINE)[i] = 0;
    fill();
    WRITE_CP15(TABLE, c2, c0, 0);
    WRITE_CP15(1, c3, c0, 0);
    WRITE_CP15(0, c7, c7, 0);
    WRITE_CP15(0, c8, c7, 0);
    set_control(CONTROL);

    section_kinds();
    domains();
    quarters();
    fine_tables();
    addresses();
    translation_faults();
    alignment();
    processes();
    return 0;
}
