@ Start, exception vectors and mode plumbing of the instruction test (see README.md).
@
@ The instructions under test own every register of every mode, banked ones included, so a handler
@ has none to spare when it begins. It stores SP beside its own code (reached relative to the PC)
@ and from there on works in the save page, the only page that is writable for privileged code
@ while a test runs. All other data of this program lies in domain 1, closed during a test.
#include "../mutants/end_machine.inc"

        .arch   armv4
        .syntax unified
        .arm

        .set    MODE_USR, 0x10
        .set    MODE_FIQ, 0x11
        .set    MODE_IRQ, 0x12
        .set    MODE_SVC, 0x13
        .set    MODE_ABT, 0x17
        .set    MODE_UND, 0x1b
        .set    MODE_SYS, 0x1f
        .set    MASKED, 0xc0            @ I and F
        .set    DOMAINS_CLOSED, 0x1     @ domain 0 client, all others no access
        .set    DOMAINS_OPEN, 0x5       @ domains 0 and 1 client

        .section .vectors, "ax"
        b       start
        b       undefined
        b       supervisor
        b       prefetch
        b       data
        b       .
        b       .
        b       .

        .global start
start:
        msr     cpsr_c, #(MODE_SVC | MASKED)
        ldr     sp, =stack_top
        bl      main
        mov     r4, r0
        @ The end: the instrumentation device first (ignored where it does not exist), then semihosting.
        ldr     r1, =0x101ff01c
        str     r4, [r1]
        end_machine r4
        b       .

        .macro  enter vector
        str     sp, saved_sp
        ldr     sp, =frame
        stmia   sp, {r0-r12}
        mov     r0, #\vector
        b       common
        .endm

undefined:
        enter   1
supervisor:
        enter   2
prefetch:
        enter   3
data:
        enter   4

        @ r0 = vector number; the interrupted r0-r12 are in the frame. exception() says where to
        @ go on, or 0 to end the case.
common:
        mov     r5, #DOMAINS_OPEN
        mcr     p15, 0, r5, c3, c0, 0
        mov     r1, lr
        mrs     r2, spsr
        mov     r4, lr
        ldr     sp, =exception_stack_top
        bl      exception
        cmp     r0, #0
        beq     case_end
        mov     lr, r0
        mov     r5, #DOMAINS_CLOSED
        mcr     p15, 0, r5, c3, c0, 0
        ldr     sp, =frame
        ldmia   sp, {r0-r12}
        ldr     sp, saved_sp
        movs    pc, lr

        @ Collects the registers of all modes into `result`, whose order collect.c knows. r4 = LR
        @ of the exception mode at entry; the mode's own SP is in saved_sp.
case_end:
        ldr     r10, =result
        ldr     r9, =frame
        ldmia   r9, {r0-r3}
        stmia   r10!, {r0-r3}
        ldr     r0, [r9, #16]           @ r4
        ldr     r1, [r9, #20]
        ldr     r2, [r9, #24]
        ldr     r3, [r9, #28]
        stmia   r10!, {r0-r3}
        ldr     r0, [r9, #32]           @ r8
        ldr     r1, [r9, #36]
        ldr     r2, [r9, #40]
        ldr     r3, [r9, #44]
        stmia   r10!, {r0-r3}
        ldr     r0, [r9, #48]           @ r12
        str     r0, [r10], #4
        mrs     r6, spsr                @ CPSR of the interrupted code
        str     r6, [r10], #4
        str     r4, [r10], #4           @ its PC, offset by the kind of exception
        mrs     r7, cpsr
        ldr     r0, saved_sp            @ the exception mode's own SP and LR
        mov     sp, r0
        mov     lr, r4
        msr     cpsr_c, #(MODE_SYS | MASKED)
        str     sp, [r10], #4
        str     lr, [r10], #4
        .irp    mode, MODE_IRQ, MODE_SVC, MODE_ABT, MODE_UND
        msr     cpsr_c, #(\mode | MASKED)
        mrs     r0, spsr
        str     sp, [r10], #4
        str     lr, [r10], #4
        str     r0, [r10], #4
        .endr
        mov     r11, r10
        msr     cpsr_c, #(MODE_FIQ | MASKED)
        mov     r0, r8
        mov     r1, r9
        mov     r2, r10
        mov     r3, r11
        mov     r4, r12
        mov     r5, sp
        mov     r6, lr
        mrs     r7, spsr
        msr     cpsr_c, #(MODE_SYS | MASKED)
        stmia   r11!, {r0-r7}
        msr     cpsr_c, #(MODE_SVC | MASKED)
        ldr     sp, =main_sp
        ldr     sp, [sp]
        ldmia   sp!, {r4-r12, pc}

        @ void run_case(const unsigned *banks, const unsigned *registers, unsigned cpsr, unsigned entry)
        @ banks: SP, LR, SPSR of IRQ, SVC, ABT, UND and r8-r12, SP, LR, SPSR of FIQ.
        @ registers: r0-r14 of the case.
        .global run_case
run_case:
        stmdb   sp!, {r4-r12, lr}
        ldr     r4, =main_sp
        str     sp, [r4]
        mov     r11, r0
        .irp    mode, MODE_IRQ, MODE_SVC, MODE_ABT, MODE_UND
        msr     cpsr_c, #(\mode | MASKED)
        ldr     sp, [r11], #4
        ldr     lr, [r11], #4
        ldr     r4, [r11], #4
        msr     spsr_cxsf, r4
        .endr
        mov     r4, r11
        msr     cpsr_c, #(MODE_FIQ | MASKED)
        ldr     r8, [r4], #4
        ldr     r9, [r4], #4
        ldr     r10, [r4], #4
        ldr     r11, [r4], #4
        ldr     r12, [r4], #4
        ldr     sp, [r4], #4
        ldr     lr, [r4], #4
        ldr     r5, [r4], #4
        msr     spsr_cxsf, r5
        @ The launch block stands in the save page, as the domain of all other data is closed first.
        msr     cpsr_c, #(MODE_SYS | MASKED)
        ldr     r4, =launch
        mov     r5, #15
1:      ldr     r6, [r1], #4
        str     r6, [r4], #4
        subs    r5, r5, #1
        bne     1b
        bic     r3, r3, #1
        str     r3, [r4]
        ldr     sp, launch + 13 * 4
        ldr     lr, launch + 14 * 4
        and     r6, r2, #0x1f
        cmp     r6, #MODE_USR
        cmpne   r6, #MODE_SYS
        beq     launch_user
        orr     r6, r6, #MASKED
        msr     cpsr_c, r6
        msr     spsr_cxsf, r2
        mov     r5, #DOMAINS_CLOSED
        mcr     p15, 0, r5, c3, c0, 0
        ldr     sp, =launch
        ldmia   sp, {r0-r15}^
        @ User and system mode have no SPSR of their own: supervisor mode launches them.
launch_user:
        msr     cpsr_c, #(MODE_SVC | MASKED)
        msr     spsr_cxsf, r2
        mov     r5, #DOMAINS_CLOSED
        mcr     p15, 0, r5, c3, c0, 0
        ldr     lr, =launch
        ldmia   lr, {r0-r12}
        ldr     lr, [lr, #15 * 4]
        movs    pc, lr

        .ltorg

        .balign 4096
        .global save_page
save_page:
saved_sp:       .word 0
frame:          .space 13 * 4
launch:         .space 16 * 4
        .balign 4096

        .section .bss
        .global result, exit_block
result:         .space 64 * 4
main_sp:        .space 4
exit_block:     .space 8
        .balign 8
        .space  8192
stack_top:
        .space  4096
exception_stack_top:
