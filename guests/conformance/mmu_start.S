@ Start, vectors and probes of the MMU program. A probe makes one access, in user mode if asked, and
@ comes back from an abort as if it had succeeded.
#include "../mutants/end_machine.inc"

        .arch   armv4
        .syntax unified
        .arm
        .section .vectors, "ax"
        b       start
        b       .
        b       supervisor
        b       prefetch
        b       data
        b       .
        b       .
        b       .

        .global start
start:
        ldr     sp, =stack_top
        bl      main
        mov     r4, r0
        end_machine r4
        b       .

        @ The only other supervisor call is the way back from a user probe: r0 holds the value.
supervisor:
        ldr     lr, =return_address
        ldr     lr, [lr]
        msr     cpsr_c, #0xd3
        mov     pc, lr

prefetch:
        sub     lr, lr, #4
        ldr     sp, =seen
        str     lr, [sp, #12]
        mov     lr, #3
        str     lr, [sp]
        b       back
data:
        ldr     sp, =seen
        str     lr, [sp, #12]
        mov     lr, #4
        str     lr, [sp]
        mrc     p15, 0, lr, c5, c0, 0
        str     lr, [sp, #4]
        mrc     p15, 0, lr, c6, c0, 0
        str     lr, [sp, #8]
back:   ldr     lr, =return_address
        ldr     lr, [lr]
        msr     cpsr_c, #0xd3
        mov     pc, lr

        @ Each: r0 address, last argument 1 for user mode. In user mode r0-r3 stay what they are.
        .macro  probe name, access, mode
        .global \name
\name:
        ldr     ip, =return_address
        str     lr, [ip]
        cmp     \mode, #0
        beq     1f
        mrs     ip, cpsr
        bic     ip, ip, #0x1f
        orr     ip, ip, #0x10
        msr     cpsr_c, ip
1:      \access
        cmp     \mode, #0
        moveq   pc, lr
        svc     0
        .endm

        probe   probe_load, "ldr r0, [r0]", r1
        probe   probe_load_half, "ldrh r0, [r0]", r1
        probe   probe_load_byte, "ldrb r0, [r0]", r1
        probe   probe_store, "str r1, [r0]", r2

        @ A fetch: calls the address, where mov pc, lr stands.
        .global probe_fetch
probe_fetch:
        ldr     ip, =return_address
        str     lr, [ip]
        cmp     r1, #0
        beq     1f
        mrs     ip, cpsr
        bic     ip, ip, #0x1f
        orr     ip, ip, #0x10
        msr     cpsr_c, ip
1:      adr     lr, 2f
        mov     pc, r0
2:      mov     r0, #1
        cmp     r1, #0
        bne     3f
        ldr     lr, =return_address
        ldr     lr, [lr]
        mov     pc, lr
3:      svc     0
        .ltorg

        .section .bss
        .global seen
seen:   .space  16
return_address:
        .space  4
exit_block:
        .space  8
        .balign 8
        .space  4096
stack_top:
