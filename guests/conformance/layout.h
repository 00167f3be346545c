/* Physical = virtual addresses of the instruction test. generate.py holds the same numbers. */
#define CASES 0x00100000        /* the cases, read-only */
#define SCRATCH 0x01800000      /* user read and write */
#define WINDOW 0x01880000       /* the part of it that is refilled and hashed for every case */
#define WINDOW_WORDS 128
#define READ_ONLY 0x01900000    /* user reads, privileged writes */
#define PRIVILEGED 0x01a00000   /* no access from user mode */
#define NO_ACCESS 0x01b00000    /* domain 2, always closed */
#define PRIVATE 0x01c00000      /* this program's data, domain 1 */
#define TEXT 0x01d00000         /* the text on its way to the console, uncached */
