@ Start of the program for the tables of ARMv7, with its probes: accesses whose aborts are noted in `seen`.
#include "../mutants/end_machine.inc"

        .arch   armv7-a
        .syntax unified
        .arm
        .section .vectors, "ax"
        .global start
start:
        ldr     sp, =stack_end
        ldr     r0, =vectors
        mcr     p15, 0, r0, c12, c0, 0  @ VBAR
        isb
        bl      main
        end_machine r0
        b       .

        .balign 32
vectors:
        b       .
        b       .
        bx      lr                      @ SVC of probe_fetch, from either mode: stay in supervisor mode
        b       prefetch_abort
        b       data_abort
        b       .
        b       .
        b       .

        @ Notes the fault and continues with the next instruction, all in abort mode but the return.
data_abort:
        ldr     sp, =seen
        mov     r12, #4
        str     r12, [sp]
        mrc     p15, 0, r12, c5, c0, 0  @ DFSR
        str     r12, [sp, #4]
        mrc     p15, 0, r12, c6, c0, 0  @ DFAR
        str     r12, [sp, #8]
        subs    pc, lr, #4

        @ Notes the fault and continues behind the fetch, in supervisor mode.
prefetch_abort:
        ldr     sp, =seen
        mov     r12, #3
        str     r12, [sp]
        mrc     p15, 0, r12, c5, c0, 1  @ IFSR
        str     r12, [sp, #4]
        mrc     p15, 0, r12, c6, c0, 2  @ IFAR
        str     r12, [sp, #8]
        cpsid   aif, #0x13
        b       fetched

        @ word probe_load(word address, word user), void probe_store(word address, word value, word user)
        .global probe_load
probe_load:
        cmp     r1, #0
        beq     1f
        ldrt    r0, [r0]
        bx      lr
1:      ldr     r0, [r0]
        bx      lr

        .global probe_store
probe_store:
        cmp     r2, #0
        beq     1f
        strt    r1, [r0]
        bx      lr
1:      str     r1, [r0]
        bx      lr

        @ void probe_fetch(word address, word user): what is there has to return
        .global probe_fetch
probe_fetch:
        push    {r4, lr}
        mov     r2, r0
        cmp     r1, #0
        beq     1f
        cps     #0x10
1:      adr     lr, 2f
        bx      r2
2:      svc     0
fetched:
        pop     {r4, pc}
        .ltorg

        .section .bss
        .balign 8
        .global seen
seen:   .space  16
exit_block:
        .space  8
        .space  2048
stack_end:
