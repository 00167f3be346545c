@ Start of the program for the board `virt`: core 0 runs main, the others what it asks of them.
#include "../mutants/end_machine.inc"

        .arch   armv7-a
        .arch_extension virt
        .syntax unified
        .arm
        .section .vectors, "ax"
        .global start
start:
        ldr     sp, =stacks + 1024
        bl      main
        mov     r4, r0
        end_machine r4
        b       .

        @ A core that was turned on: r0 is its number.
        .global second_start
second_start:
        ldr     sp, =stacks + 1024
        add     sp, sp, r0, lsl #10
        bl      serve
        b       .

        @ word firmware(word function, word first, word second, word third)
        .global firmware
firmware:
        hvc     #0
        bx      lr
        .ltorg

        .section .bss
exit_block:
        .space  8
        .balign 8
stacks: .space  8 * 1024
