@ Start-up of the mutants: vectors, a stack, aborts that are counted and passed over, the end.
#include "end_machine.inc"

        .file   "start.S"      @ or the ELF names a temporary object, another one each time
        .arch   armv4
        .syntax unified
        .arm
        .section .vectors, "ax"
        b       start
        b       stuck
        b       stuck
        b       prefetch
        b       data
        b       stuck
        b       stuck
        b       stuck

        .global start
start:
        ldr     sp, =stack_top
        bl      set_up
        bl      program
        mov     r0, #0
finish:
        end_machine r0
stuck:
        mov     r0, #1
        b       finish

        @ A data abort: continue behind the access.
data:
        ldr     sp, =abort_stack_top
        stmfd   sp!, {r0, r1, lr}
        ldr     r0, =aborts
        ldr     r1, [r0]
        add     r1, r1, #1
        str     r1, [r0]
        ldmfd   sp!, {r0, r1, lr}
        subs    pc, lr, #4

        @ A prefetch abort: go back to the caller of what was called.
prefetch:
        mrs     lr, spsr
        bic     lr, lr, #0x20
        msr     cpsr_cxsf, lr
        mov     pc, lr

        @ Code that is copied about: returns one number or another.
        .global return_one, return_two
return_one:
        mov     r0, #1
        mov     pc, lr
return_two:
        mov     r0, #2
        mov     pc, lr

        .section .bss
        .global aborts
aborts: .space  4
exit_block:
        .space  8
        .balign 8
        .space  256
abort_stack_top:
        .space  4096
stack_top:
