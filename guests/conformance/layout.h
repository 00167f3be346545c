/* Physical = virtual addresses of the instruction test. generate.py holds the same numbers. */
#define CASES 0x00100000        /* the cases, read-only */
#define SCRATCH 0x06000000      /* user read and write */
#define WINDOW 0x06080000       /* the part of it that is refilled and hashed for every case */
#define WINDOW_WORDS 128
#define READ_ONLY 0x06100000    /* user reads, privileged writes */
#define PRIVILEGED 0x06200000   /* no access from user mode */
#define NO_ACCESS 0x06300000    /* domain 2, always closed */
#define PRIVATE 0x07000000      /* this program's data, domain 1 */
#define TEXT 0x07100000         /* the text on its way to the console, uncached */
