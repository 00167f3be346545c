"""Random instruction sequences of ARMv7-A: what ARMv6 and ARMv7 added to ARM and Thumb state.

Each line of the tables is one encoding as ARM DDI 0406C draws it (A5, A6, A8.8), with a token for
each field: `c` a condition; `D` a destination, `E` a second one, another than `D`; `N`, `M`, `A`
any register but R13 and R15; `B` a base that points somewhere, mostly; `X` a small index; `L` a
list of registers; lower-case runs are random bits. What the manual leaves open is not drawn:
registers R13 and R15 where they are unpredictable, equal destinations, write-back to a loaded
register. Encodings that the older cores have too come from `generate`.
"""

import instructions
from generate import AL, NOP_THUMB, SYS, USR, WINDOW, Generator
from instructions import QEMU_ALIGNED_TO_32, QEMU_SMC_IN_BLOCK, QEMU_VMRS_IN_BLOCK, V5TE

#: Control register: MMU, caches, branch prediction; and on every other seed alignment faults.
CONTROL = 0x00C5187D
ALIGNMENT = 2

#: Fields of each encoding of ARM state, by name.
ARM = """
movw      cccc 0011 0000 iiii D iiiiiiiiiiii
movt      cccc 0011 0100 iiii D iiiiiiiiiiii
sbfx      cccc 0111 101 w5 D l5 101 N
ubfx      cccc 0111 111 w5 D l5 101 N
bfi       cccc 0111 110 h5 D l5 001 N
bfc       cccc 0111 110 h5 D l5 001 1111
ssat      cccc 0110 101 iiiii D iiiii i 01 N
usat      cccc 0110 111 iiiii D iiiii i 01 N
ssat16    cccc 0110 1010 iiii D 1111 0011 N
usat16    cccc 0110 1110 iiii D 1111 0011 N
sxtab16   cccc 0110 1000 P D rr 00 0111 M
sxtab     cccc 0110 1010 P D rr 00 0111 M
sxtah     cccc 0110 1011 P D rr 00 0111 M
uxtab16   cccc 0110 1100 P D rr 00 0111 M
uxtab     cccc 0110 1110 P D rr 00 0111 M
uxtah     cccc 0110 1111 P D rr 00 0111 M
pkh       cccc 0110 1000 N D iiiii t 01 M
sel       cccc 0110 1000 N D 1111 1011 M
rev       cccc 0110 1011 1111 D 1111 0011 M
rev16     cccc 0110 1011 1111 D 1111 1011 M
rbit      cccc 0110 1111 1111 D 1111 0011 M
revsh     cccc 0110 1111 1111 D 1111 1011 M
usada8    cccc 0111 1000 D P M 0001 N
sdiv      cccc 0111 0001 D 1111 M 0001 N
udiv      cccc 0111 0011 D 1111 M 0001 N
parallel  cccc 0110 0 p3 N D 1111 0 kk 1 M
parallel8 cccc 0110 0 p3 N D 1111 1 00 1 M
parallel8 cccc 0110 0 p3 N D 1111 1 11 1 M
mls       cccc 0000 0110 D A M 1001 N
umaal     cccc 0000 0100 D E M 1001 N
smlad     cccc 0111 0000 D P M 0 kx 1 N
smlald    cccc 0111 0100 D E M 0 kx 1 N
smmla     cccc 0111 0101 D P M 00 x 1 N
smmls     cccc 0111 0101 D A M 11 x 1 N
ldrht     cccc 0000 u 111 B D iiii 1011 iiii
ldrsbt    cccc 0000 u 111 B D iiii 1101 iiii
ldrsht    cccc 0000 u 111 B D iiii 1111 iiii
strht     cccc 0000 u 110 B N iiii 1011 iiii
ldrht.r   cccc 0000 u 011 B D 0000 1011 X
ldrd      cccc 0001 u 100 B Q 00ii 1101 iiii
strd      cccc 0001 u 100 B Q 00ii 1111 iiii
ldrex     cccc 0001 1001 B D 1111 1001 1111
ldrexb    cccc 0001 1101 B D 1111 1001 1111
ldrexh    cccc 0001 1111 B D 1111 1001 1111
ldrexd    cccc 0001 1011 B Q 1111 1001 1111
hint      cccc 0011 0010 0000 1111 0000 0000 0000
yield     cccc 0011 0010 0000 1111 0000 0000 0001
sev       cccc 0011 0010 0000 1111 0000 0000 0100
dbg       cccc 0011 0010 0000 1111 0000 1111 iiii
msr.s     cccc 0011 0010 k100 1111 iiii iiiiiiii
msr.sr    cccc 0001 0010 k100 1111 0000 0000 N
clrex     1111 0101 0111 1111 1111 0000 0001 1111
dsb       1111 0101 0111 1111 1111 0000 0100 1111
dmb       1111 0101 0111 1111 1111 0000 0101 1011
isb       1111 0101 0111 1111 1111 0000 0110 1111
pld       1111 0101 u 101 N 1111 iiiiiiiiiiii
pldw      1111 0101 u 001 N 1111 iiiiiiiiiiii
pli       1111 0100 u 101 N 1111 iiiiiiiiiiii
cps.user  1111 0001 0000 1 k 00 0000 000 iii 0 00000
thread    cccc 1110 000 1 1101 D 1111 010 1 0000
udf       cccc 0111 1111 iiii iiii iiii 1111 iiii
smc       cccc 0001 0110 0000 0000 0000 0111 iiii
"""

#: The same of 32 bits in Thumb state, the first half-word first.
WIDE = """
and.i   11110 i 0 0000 s N 0 iii D iiiiiiii
bic.i   11110 i 0 0001 s N 0 iii D iiiiiiii
orr.i   11110 i 0 0010 s N 0 iii D iiiiiiii
mov.i   11110 i 0 0010 s 1111 0 iii D iiiiiiii
orn.i   11110 i 0 0011 s N 0 iii D iiiiiiii
mvn.i   11110 i 0 0011 s 1111 0 iii D iiiiiiii
eor.i   11110 i 0 0100 s N 0 iii D iiiiiiii
add.i   11110 i 0 1000 s N 0 iii D iiiiiiii
adc.i   11110 i 0 1010 s N 0 iii D iiiiiiii
sbc.i   11110 i 0 1011 s N 0 iii D iiiiiiii
sub.i   11110 i 0 1101 s N 0 iii D iiiiiiii
rsb.i   11110 i 0 1110 s N 0 iii D iiiiiiii
tst.i   11110 i 0 0000 1 N 0 iii 1111 iiiiiiii
teq.i   11110 i 0 0100 1 N 0 iii 1111 iiiiiiii
cmn.i   11110 i 0 1000 1 N 0 iii 1111 iiiiiiii
cmp.i   11110 i 0 1101 1 N 0 iii 1111 iiiiiiii
and.r   1110101 0000 s N 0 iii D ii kk M
bic.r   1110101 0001 s N 0 iii D ii kk M
orr.r   1110101 0010 s N 0 iii D ii kk M
mov.r   1110101 0010 s 1111 0 iii D ii kk M
orn.r   1110101 0011 s N 0 iii D ii kk M
mvn.r   1110101 0011 s 1111 0 iii D ii kk M
eor.r   1110101 0100 s N 0 iii D ii kk M
pkh     1110101 0110 0 N 0 iii D ii k 0 M
add.r   1110101 1000 s N 0 iii D ii kk M
adc.r   1110101 1010 s N 0 iii D ii kk M
sbc.r   1110101 1011 s N 0 iii D ii kk M
sub.r   1110101 1101 s N 0 iii D ii kk M
rsb.r   1110101 1110 s N 0 iii D ii kk M
tst.r   1110101 0000 1 N 0 iii 1111 ii kk M
teq.r   1110101 0100 1 N 0 iii 1111 ii kk M
cmn.r   1110101 1000 1 N 0 iii 1111 ii kk M
cmp.r   1110101 1101 1 N 0 iii 1111 ii kk M
addw    11110 i 1 0000 0 N 0 iii D iiiiiiii
adr     11110 i 1 0000 0 1111 0 iii D iiiiiiii
subw    11110 i 1 0101 0 N 0 iii D iiiiiiii
adr.sub 11110 i 1 0101 0 1111 0 iii D iiiiiiii
movw    11110 i 1 0010 0 iiii 0 iii D iiiiiiii
movt    11110 i 1 0110 0 iiii 0 iii D iiiiiiii
ssat    11110 0 1 1000 0 N 0 iii D ii 0 iiiii
ssat.r  11110 0 1 1001 0 N 0 1ii D ii 0 iiiii
ssat16  11110 0 1 1001 0 N 0 000 D 00 00 iiii
usat    11110 0 1 1100 0 N 0 iii D ii 0 iiiii
usat.r  11110 0 1 1101 0 N 0 i1i D ii 0 iiiii
usat16  11110 0 1 1101 0 N 0 000 D 00 00 iiii
sbfx    11110 0 1 1010 0 N 0 l3 D l2 0 w5
ubfx    11110 0 1 1110 0 N 0 l3 D l2 0 w5
bfi     11110 0 1 1011 0 N 0 l3 D l2 0 h5
bfc     11110 0 1 1011 0 1111 0 l3 D l2 0 h5
shift   11111010 0 kk s N 1111 D 0000 M
sxtah   11111010 0 000 P 1111 D 10 rr M
uxtah   11111010 0 001 P 1111 D 10 rr M
sxtab16 11111010 0 010 P 1111 D 10 rr M
uxtab16 11111010 0 011 P 1111 D 10 rr M
sxtab   11111010 0 100 P 1111 D 10 rr M
uxtab   11111010 0 101 P 1111 D 10 rr M
qadd    11111010 1000 N 1111 D 10 kk M
rev     11111010 1001 O 1111 D 10 kk O
sel     11111010 1010 N 1111 D 1000 M
clz     11111010 1011 O 1111 D 1000 O
add8    11111010 1000 N 1111 D 0 q3 M
add16   11111010 1001 N 1111 D 0 q3 M
asx     11111010 1010 N 1111 D 0 q3 M
sub8    11111010 1100 N 1111 D 0 q3 M
sub16   11111010 1101 N 1111 D 0 q3 M
sax     11111010 1110 N 1111 D 0 q3 M
mla     11111011 0000 N P D 0000 M
mls     11111011 0000 N A D 0001 M
smlaxy  11111011 0001 N P D 00 xx M
smlad   11111011 0010 N P D 000 x M
smlawy  11111011 0011 N P D 000 x M
smlsd   11111011 0100 N P D 000 x M
smmla   11111011 0101 N P D 000 x M
smmls   11111011 0110 N A D 000 x M
usada8  11111011 0111 N P D 0000 M
smull   11111011 1000 N E D 0000 M
sdiv    11111011 1001 N 1111 D 1111 M
umull   11111011 1010 N E D 0000 M
udiv    11111011 1011 N 1111 D 1111 M
smlal   11111011 1100 N E D 0000 M
smlalxy 11111011 1100 N E D 10 xx M
smlald  11111011 1100 N E D 110 x M
smlsld  11111011 1101 N E D 110 x M
umlal   11111011 1110 N E D 0000 M
umaal   11111011 1110 N E D 0110 M
strb    11111000 1000 B N 0000 0 iiiiiii
strh    11111000 1010 B N 0000 0 iiiiiii
str     11111000 1100 B N 0000 0 iiiiiii
ldrb    11111000 1001 B D 0000 0 iiiiiii
ldrh    11111000 1011 B D 0000 0 iiiiiii
ldr     11111000 1101 B D 0000 0 iiiiiii
ldrsb   11111001 1001 B D 0000 0 iiiiiii
ldrsh   11111001 1011 B D 0000 0 iiiiiii
strb.n  11111000 0000 B N 1100 00iiiiii
str.n   11111000 0100 B N 1100 00iiiiii
ldrb.n  11111000 0001 B D 1100 00iiiiii
ldrsh.n 11111001 0011 B D 1100 00iiiiii
strh.w  11111000 0010 B N 1 k u 1 00iiiiii
str.w   11111000 0100 B N 1 k u 1 00iiiiii
ldrb.w  11111000 0001 B D 1 k u 1 00iiiiii
ldrh.w  11111000 0011 B D 1 k u 1 00iiiiii
ldr.w   11111000 0101 B D 1 k u 1 00iiiiii
ldrsb.w 11111001 0001 B D 1 k u 1 00iiiiii
strbt   11111000 0000 B N 1110 00iiiiii
strht   11111000 0010 B N 1110 00iiiiii
strt    11111000 0100 B N 1110 00iiiiii
ldrbt   11111000 0001 B D 1110 00iiiiii
ldrht   11111000 0011 B D 1110 00iiiiii
ldrt    11111000 0101 B D 1110 00iiiiii
ldrsbt  11111001 0001 B D 1110 00iiiiii
ldrsht  11111001 0011 B D 1110 00iiiiii
strb.r  11111000 0000 B N 000000 ii X
strh.r  11111000 0010 B N 000000 ii X
str.r   11111000 0100 B N 000000 ii X
ldrb.r  11111000 0001 B D 000000 ii X
ldrh.r  11111000 0011 B D 000000 ii X
ldr.r   11111000 0101 B D 000000 ii X
ldrsh.r 11111001 0011 B D 000000 ii X
ldr.l   11111000 u 10 1 1111 D 00000 iiiiiii
ldrb.l  11111000 u 00 1 1111 D 00000 iiiiiii
ldrsh.l 11111001 u 01 1 1111 D 00000 iiiiiii
pld     11111000 1001 N 1111 iiiiiiiiiiii
pld.n   11111000 0001 N 1111 1100 iiiiiiii
pldw    11111000 1011 N 1111 iiiiiiiiiiii
pli     11111001 1001 N 1111 iiiiiiiiiiii
strd    1110100 1 u 1 w 0 B N M 0000 iiii
ldrd    1110100 1 u 1 w 1 B D E 0000 iiii
ldrd.p  1110100 0 u 1 1 1 B D E 0000 iiii
stm     1110100 01 0 w 0 B L
stmdb   1110100 10 0 w 0 B L
ldm     1110100 01 0 w 1 B K
ldmdb   1110100 10 0 w 1 B K
ldrex   1110100 0010 1 B D 1111 0000iiii
ldrexb  1110100 0110 1 B D 1111 0100 1111
ldrexh  1110100 0110 1 B D 1111 0101 1111
ldrexd  1110100 0110 1 B D E 0111 1111
hint    11110 011101 0 1111 1000 0000 0000 0000
clrex   11110 011101 1 1111 1000 1111 0010 1111
dsb     11110 011101 1 1111 1000 1111 0100 1111
dmb     11110 011101 1 1111 1000 1111 0101 1011
isb     11110 011101 1 1111 1000 1111 0110 1111
mrs     11110 011111 0 1111 1000 D 0000 0000
msr.s   11110 011100 0 N 1000 k100 0000 0000
thread  1110 1110 000 1 1101 D 1111 010 1 0000
udf     11110 111111 1 iiii 1010 iiiiiiiiiiii
smc     11110 111111 1 iiii 1000 000000000000
"""

#: Of 16 bits.
NARROW = """
sxth   1011001000 mmm ddd
sxtb   1011001001 mmm ddd
uxth   1011001010 mmm ddd
uxtb   1011001011 mmm ddd
rev    1011101000 mmm ddd
rev16  1011101001 mmm ddd
revsh  1011101011 mmm ddd
nop    1011111100000000
yield  1011111100010000
sev    1011111101000000
udf    11011110 iiiiiiii
cps    10110110011 i 0 iii
"""

#: VFP, in both states: in Thumb state the condition is 1110. Left out: more fraction bits than bits, two
#: single registers from S31 on, lists of an odd number of words in double registers, lengths of vectors.
VFP = """
vmla     cccc 1110 0 v oo nnnn dddd 101 z n o m 0 mmmm
vdiv     cccc 1110 1 v 00 nnnn dddd 101 z n 0 m 0 mmmm
vfnma    cccc 1110 1 v 01 nnnn dddd 101 z n o m 0 mmmm
vfma     cccc 1110 1 v 10 nnnn dddd 101 z n o m 0 mmmm
vmov.i   cccc 1110 1 v 11 iiii dddd 101 z 0000 iiii
vabs     cccc 1110 1 v 11 000 o dddd 101 z o 1 m 0 mmmm
vcvtb    cccc 1110 1 v 11 001 o dddd 1010 t 1 m 0 mmmm
vcmp     cccc 1110 1 v 11 0100 dddd 101 z e 1 m 0 mmmm
vcmp.0   cccc 1110 1 v 11 0101 dddd 101 z e 1 0 0 0000
vcvt.p   cccc 1110 1 v 11 0111 dddd 101 z 11 m 0 mmmm
vcvt.of  cccc 1110 1 v 11 1000 dddd 101 z s 1 m 0 mmmm
vcvt.to  cccc 1110 1 v 11 110 s dddd 101 z r 1 m 0 mmmm
vcvt.x16 cccc 1110 1 v 11 1 o 1 u dddd 101 z 01 i 0 0 iii
vcvt.x32 cccc 1110 1 v 11 1 o 1 u dddd 101 z 11 i 0 iiii
vmov.ce  cccc 1110 0 oo 0 nnnn N 1011 n bb 1 0000
vmov.ec  cccc 1110 u oo 1 nnnn D 1011 n bb 1 0000
vdup     cccc 1110 1 b q 0 dddd N 1011 d 0 e 1 0000
vmrs     cccc 1110 1111 0001 D 1010 0001 0000
vmrs.nz  cccc 1110 1111 0001 1111 1010 0001 0000
vmrs.id  cccc 1110 1111 0000 D 1010 0001 0000
vmrs.v0  cccc 1110 1111 0111 D 1010 0001 0000
vmrs.v1  cccc 1110 1111 0110 D 1010 0001 0000
vmrs.ex  cccc 1110 1111 1000 D 1010 0001 0000
vmov.cs  cccc 1110 0000 nnnn N 1010 n 001 0000
vmov.sc  cccc 1110 0001 nnnn D 1010 n 001 0000
vmov.pd  cccc 1100 0100 A N 1011 00 m 1 mmmm
vmov.ps  cccc 1100 0100 A N 1010 00 m 1 0 mmm
vmov.dp  cccc 1100 0101 E D 1011 00 m 1 mmmm
vmov.sp  cccc 1100 0101 E D 1010 00 m 1 0 mmm
vldr     cccc 1101 u v 01 B dddd 101 z 000 iiiii
vstr     cccc 1101 u v 00 B dddd 101 z 000 iiiii
vldm     cccc 1100 1 v w 1 B dddd 101 z 0000 iii 0
vstm     cccc 1100 1 v w 0 B dddd 101 z 0000 iii 0
vldmdb   cccc 1101 0 v 11 B dddd 101 z 0000 iii 0
vstmdb   cccc 1101 0 v 10 B dddd 101 z 0000 iii 0
"""

#: Advanced SIMD, with the first byte of ARM state; most lines are whole groups. Left out: VTRN, VUZP and
#: VZIP of a register with itself, and lists that run over D31.
NEON = """
three    1111 001 u 0 v zz nnnn dddd oooo n q m o mmmm
logic    1111 001 u 0 v zz nnnn dddd 0001 n q m 1 mmmm
float    1111 001 u 0 v z 0 nnnn dddd 11 oo n q m o mmmm
fused    1111 0010 0 v z 0 nnnn dddd 1100 n q m 1 mmmm
long.8   1111 001 u 1 v 00 nnnn ddd 0 oooo n 0 m 0 mmmm
long.16  1111 001 u 1 v 01 nnnn ddd 0 oooo n 0 m 0 mmmm
long.32  1111 001 u 1 v 10 nnnn ddd 0 oooo n 0 m 0 mmmm
wide     1111 001 u 1 v 01 nnn 0 ddd 0 00 o 1 n 0 m 0 mmmm
narrow   1111 001 u 1 v 01 nnn 0 dddd 01 o 0 n 0 m 0 mmm 0
by.16    1111 001 u 1 v 01 nnn 0 ddd 0 oooo n 1 m 0 mmmm
by.32    1111 001 u 1 v 10 nnn 0 ddd 0 oooo n 1 m 0 mmmm
shift    1111 001 u 1 v ii iiii dddd oooo l q m 1 mmmm
shift.q  1111 001 u 1 v ii iiii ddd 0 oooo l q m 1 mmm 0
immed    1111 001 i 1 v 00 0 iii dddd kkkk 0 q o 1 iiii
misc     1111 0011 1 v 11 zz oo dddd 0 oooo q m 0 mmmm
misc.q   1111 0011 1 v 11 zz oo ddd 0 0 oooo q m 0 mmm 0
vrecpe   1111 0011 1 v 11 1011 dddd 010 oo q m 0 mmmm
vcvt.h   1111 0011 1 v 11 0110 ddd 0 011 o 00 m 0 mmm 0
vtbl     1111 0011 1 v 11 nnnn dddd 10 ll 0 o m 0 mmmm
vdup     1111 0011 1 v 11 iiii dddd 1100 0 q m 0 mmmm
vext     1111 0010 1 v 11 nnnn dddd iiii n q m 0 mmmm
vld      1111 0100 0 0 l 0 B dddd yyyy zz aa R
vld.high 1111 0100 0 1 l 0 B 0 ddd yyyy zz aa R
vld.one  1111 0100 1 0 l 0 B dddd 0 z yy aaaa R
vld.on32 1111 0100 1 1 l 0 B 0 ddd 10 yy aaaa R
vld.all  1111 0100 1 0 10 B dddd 11 yy zz t a R
"""


def in_thumb(tokens):
    """The tokens of a VFP or Advanced SIMD encoding in Thumb state."""
    first = {"cccc": ["1110"], "1111 0100": ["1111", "1001"]}
    if tokens[0] == "cccc":
        return first["cccc"] + tokens[1:]
    if tokens[1] == "0100":
        return first["1111 0100"] + tokens[2:]
    # U, which may be a bit of its own or the last of its group.
    if tokens[1] == "001":
        return ["111", tokens[2], "1111", *tokens[3:]]
    return ["111" + tokens[1][3], "1111", *tokens[2:]]


#: Bits of a token that does not show how many it has.
WIDTHS = {"D": 4, "E": 4, "N": 4, "M": 4, "A": 4, "O": 4, "P": 4, "Q": 4, "S": 4, "B": 4, "X": 4, "R": 4,
          "L": 16, "K": 16, "l5": 5, "l3": 3, "l2": 2, "w5": 5, "h5": 5, "p3": 3, "q3": 3}  # fmt: skip


def parse(text):
    return [(fields[0], fields[1:]) for fields in map(str.split, text.strip().splitlines())]


class Generator7(Generator):
    """Cases of ARMv7-A, in the form of the older ones."""

    def __init__(self, seed, vector_share=0.5, **shares):
        super().__init__(seed, V5TE, **shares)
        self.vector_share = vector_share
        self.tables = {state: parse(text) for state, text in
                       [("arm", ARM), ("wide", WIDE), ("narrow", NARROW)]}  # fmt: skip
        vectors = [parse(VFP), parse(NEON)]
        self.vectors = {
            "arm": vectors,
            "wide": [[(name, in_thumb(tokens)) for name, tokens in rows] for rows in vectors],
        }
        self.control = CONTROL | (ALIGNMENT if seed % 2 else 0)
        self.status_mask = 0xFE0FFFFF

    # ---- fields ------------------------------------------------------------------------------

    def source(self):
        return self.random.choice([*range(13), 14])

    def destination(self, taken=()):
        choice = [r for r in [*range(13), 14] if not self.reserved >> r & 1 and r not in taken]
        return self.random.choice(choice)

    def fields(self, name, tokens):
        """The value of each token, or nothing if the encoding would be unpredictable."""
        rng = self.random
        found = {}
        low = rng.randrange(32)
        width = rng.randrange(32 - low)
        for token in tokens:
            if token in found or set(token) <= {"0", "1"}:
                continue
            if token == "D":
                found[token] = self.destination()
            elif token == "S":
                found[token] = self.destination(self.pointers)
            elif token in "NMAO":
                found[token] = self.source()
            elif token == "P":
                found[token] = 15 if rng.random() < 0.4 else self.source()
            elif token == "Q":
                pairs = [r for r in range(0, 12, 2) if not self.reserved >> r & 3]
                found[token] = rng.choice(pairs)
            elif token == "B":
                found[token] = rng.choice(self.pointers)
            elif token == "R":
                index = rng.choice(self.small) if self.small else 15
                found[token] = rng.choice((15, 15, 13, 13, index))
            elif token == "X":
                found[token] = rng.choice(self.small) if self.small else self.source()
            elif token == "L":
                found[token] = rng.getrandbits(13) | rng.getrandbits(1) << 14
            elif token == "K":
                found[token] = (rng.getrandbits(13) | rng.getrandbits(1) << 14) & ~self.reserved
            elif token[0] == "l" and token[1:].isdigit():
                found[token] = low >> 2 if token == "l3" else low & 3 if token == "l2" else low
            elif token == "w5":
                found[token] = width
            elif token == "h5":
                found[token] = low + width
            elif token == "p3":
                found[token] = rng.choice((1, 2, 3, 5, 6, 7))
            elif token == "q3":
                found[token] = rng.choice((0, 1, 2, 4, 5, 6))
            elif token == "cccc":
                found[token] = 14 if rng.random() < 0.7 else rng.randrange(15)
        if "E" in tokens:
            found["E"] = self.destination([found["D"]])
        return None if self.unpredictable(name, tokens, found) else found

    def unpredictable(self, name, tokens, found):
        written = {found.get(t) for t in "DE" if t in found}
        if "Q" in found:
            written |= {found["Q"], found["Q"] + 1}
        if "S" in found and found["S"] in {found.get(t) for t in "BNM"}:
            return True
        base = found.get("B")
        if base is not None and base in written:
            return True
        # Write-back to what is stored or transferred.
        if base is not None and name not in ("str", "strb", "strh") and base == found.get("N"):
            return True
        if base is not None and base == found.get("M"):
            return True
        for token in "LK":
            listed = found.get(token)
            if listed is not None and (bin(listed).count("1") < 2 or listed >> base & 1):
                return True
        return False

    def encode(self, name, tokens):
        found = self.fields(name, tokens)
        if found is None:
            return None
        word = 0
        for token in tokens:
            if token in found:
                width = WIDTHS.get(token, len(token))
                word = word << width | found[token]
                continue
            for bit in token:
                word = word << 1 | (int(bit) if bit in "01" else self.random.getrandbits(1))
        changed = sum(1 << found[t] for t in "DES" if t in found)
        changed |= 3 << found["Q"] if "Q" in found else 0
        changed |= found.get("K", 0)
        self.forget(changed)
        return word

    @staticmethod
    def permutes_itself(word):
        """VTRN, VUZP or VZIP with one register, of either state."""
        permutes = word & 0x30E00 == 0x20000
        return permutes and (word >> 22 & 1, word >> 12 & 15) == (word >> 5 & 1, word & 15)

    def vector(self, state):
        while True:
            rows = self.random.choice(self.vectors[state])
            name, tokens = self.random.choice(rows)
            word = self.encode(name, tokens)
            if word is None or name[:4] == "misc" and self.permutes_itself(word):
                continue
            if name in ("vld", "vld.high") and word >> 4 & 3 == 3:
                self.left_out[QEMU_ALIGNED_TO_32] += 1
            else:
                self.made[f"{state}.{name}"] += 1
                return word

    def draw(self, state):
        if state in self.vectors and self.random.random() < self.vector_share:
            return self.vector(state)
        while True:
            name, tokens = self.random.choice(self.tables[state])
            word = self.encode(name, tokens)
            if word is not None:
                self.made[f"{state}.{name}"] += 1
                if state == "narrow":
                    if tokens[-1] == "ddd":
                        if self.reserved >> (word & 7) & 1:
                            continue
                        self.forget(1 << (word & 7))
                    if name == "cps" and not self.user:
                        continue
                if name == "cps.user" and not self.user:
                    continue
                return word

    # ---- both generations ----------------------------------------------------------------------

    #: Of the older generator's names: what ARMv7 has as something else, or not on every core.
    CHANGED = ("undefined", "coprocessor", "swp", "nv", "pld", "cp1", "bkpt", "t.undefined")

    def older(self, make, name_of):
        while True:
            word = make()
            name = name_of(word)
            # The second byte of the status register has the order of data, which is not modelled.
            if not name.startswith(self.CHANGED) and not (name == "msr" and word & 0x20000):
                return word

    def arm_word(self):
        if self.random.random() < 0.6:
            return self.draw("arm")
        own = self.mode not in (USR, SYS)
        return self.older(
            super().arm_word, lambda word: instructions.arm(word, V5TE, self.user, own)[0]
        )

    def thumb_half(self):
        if self.random.random() < 0.15:
            return self.draw("narrow")
        return self.older(super().thumb_half, lambda half: instructions.thumb(half, V5TE)[0])

    def wide(self, code, in_block=False):
        word = self.draw("wide")
        # QEMU 7.2 saves no state of an IT block when SMC, which is not there, is undefined in it.
        while in_block and word >> 20 == 0xF7F and word >> 12 & 15 == 8:
            self.left_out[QEMU_SMC_IN_BLOCK] += 1
            word = self.draw("wide")
        # Nor does it go on in the block after an identification of VFP was read.
        while in_block and word >> 20 == 0xEEF and word & 0xFFF == 0xA10 and word >> 16 & 15 != 1:
            self.left_out[QEMU_VMRS_IN_BLOCK] += 1
            word = self.draw("wide")
        code.add(4, word >> 16 | (word & 0xFFFF) << 16)

    def thumb_instruction(self, code):
        if self.random.random() < 0.55:
            self.wide(code)
        else:
            code.add(2, self.thumb_half())

    # ---- templates -----------------------------------------------------------------------------

    def exclusive(self, code, wide):
        """An exclusive load, perhaps CLREX, and the store that belongs to it."""
        rng = self.random
        base, status, *data = self.free(6, 12)
        bytes_, load_arm, store_arm, load_wide, store_wide = rng.choice([
            (1, 0x01D00F9F, 0x01C00F90, 0xE8D00F4F, 0xE8C00F40),
            (2, 0x01F00F9F, 0x01E00F90, 0xE8D00F5F, 0xE8C00F50),
            (4, 0x01900F9F, 0x01800F90, 0xE8500F00, 0xE8400000),
            (8, 0x01B00F9F, 0x01A00F90, 0xE8D0007F, 0xE8C00070),
        ])  # fmt: skip
        pair = 2 * rng.randrange(6)
        while {pair, pair + 1} & {base, status} or self.reserved >> pair & 3:
            pair = 2 * rng.randrange(6)
        offset = 128 + bytes_ * rng.randrange(128 // bytes_)
        cleared = rng.random() < 0.3
        self.made[f"exclusive.{bytes_}"] += 1
        if not wide:
            self.point(code, base, alignment=bytes_)
            first, second = (pair, pair) if bytes_ == 8 else data[:2]
            code.add(4, AL | load_arm | base << 16 | first << 12)
            if cleared:
                code.add(4, 0xF57FF01F)
            code.add(4, AL | store_arm | base << 16 | status << 12 | second)
            self.forget(3 << first)
            return
        address = WINDOW + offset
        for operation, half in ((0xF2400000, address & 0xFFFF), (0xF2C00000, address >> 16)):
            word = operation | half >> 12 << 16 | (half >> 11 & 1) << 26
            word |= (half >> 8 & 7) << 12 | base << 8 | half & 0xFF
            code.add(4, self._halves(word))
        first, second, third, fourth = data
        load = load_wide | base << 16 | first << 12 | (second << 8 if bytes_ == 8 else 0)
        code.add(4, self._halves(load))
        if cleared:
            code.add(4, self._halves(0xF3BF8F2F))
        store = store_wide | base << 16 | third << 12
        store |= status << 8 if bytes_ == 4 else fourth << 8 | status if bytes_ == 8 else status
        code.add(4, self._halves(store))

    def arm_template(self, code):
        if self.random.random() < 0.15:
            first = len(code.items)
            self.exclusive(code, wide=False)
            code.join(first)
        else:
            super().arm_template(code)

    def thumb_template(self, code):
        own = [self.block, self.compare_and_branch, self.wide_branch, self.wide_condition,
               self.wide_call, self.table_branch, self.wide_exclusive]  # fmt: skip
        if self.random.random() < 0.3:
            super().thumb_template(code)
            return
        first = len(code.items)
        self.random.choices(own, [6, 2, 1, 2, 1, 1, 1])[0](code)
        code.join(first)

    def wide_exclusive(self, code):
        self.exclusive(code, wide=True)

    def block(self, code):
        """IT and its instructions, none of which branches."""
        rng = self.random
        first = rng.randrange(14)
        count = rng.randrange(1, 5)
        choices = [rng.randrange(2) for _ in range(count - 1)]
        mask = 0
        for choice in choices:
            mask = mask << 1 | (first & 1 ^ choice)
        mask = (mask << 1 | 1) << (4 - count)
        code.add(2, 0xBF00 | first << 4 | mask)
        self.made["it"] += 1
        for _ in range(count):
            if rng.random() < 0.5:
                self.wide(code, in_block=True)
                continue
            while True:
                half = self.thumb_half()
                # CPS is unpredictable in a block, and BKPT asks for no condition (a Rust test has
                # it).
                if half >> 8 not in (0xB6, 0xBE):
                    break
            code.add(2, half)

    def compare_and_branch(self, code):
        (register,) = self.random.sample(range(8), 1)
        code.align()
        nonzero = self.random.getrandbits(1)

        def make(address, target):
            distance = target - address - 4
            if not 0 <= distance < 128:
                return NOP_THUMB
            return (
                0xB100 | nonzero << 11 | distance >> 6 << 9 | (distance >> 1 & 31) << 3 | register
            )

        code.branch(2, make, self.skip())

    @staticmethod
    def _halves(word):
        return word >> 16 | (word & 0xFFFF) << 16

    def _long(self, word):
        def make(address, target):
            distance = target - address - 4
            sign = distance >> 24 & 1
            j, h = (distance >> 23 & 1) ^ sign ^ 1, (distance >> 22 & 1) ^ sign ^ 1
            low = j << 13 | h << 11 | distance >> 1 & 0x7FF
            return self._halves(word | sign << 26 | (distance >> 12 & 0x3FF) << 16 | low)

        return make

    def wide_branch(self, code):
        code.branch(4, self._long(0xF0009000), self.skip())

    def wide_call(self, code):
        self.forget(1 << 14)
        code.branch(4, self._long(0xF000D000), self.skip())

    def wide_condition(self, code):
        condition = self.random.randrange(14)

        def make(address, target):
            distance = target - address - 4
            word = 0xF0008000 | (distance >> 20 & 1) << 26 | condition << 22
            word |= (distance >> 18 & 1) << 13 | (distance >> 19 & 1) << 11
            return self._halves(word | (distance >> 12 & 0x3F) << 16 | distance >> 1 & 0x7FF)

        code.branch(4, make, self.skip())

    def table_branch(self, code):
        """TBB or TBH through a table behind it."""
        (index,) = self.free(1, 8)
        half = self.random.getrandbits(1)
        entry = self.random.randrange(2)
        code.add(2, 0x2000 | index << 8 | entry)
        code.add(4, self._halves(0xE8DFF000 | half << 4 | index))
        # Two entries of which either leads behind the table.
        if half:
            code.add(2, 2)
            code.add(2, 2)
        else:
            code.add(2, 0x0101)
