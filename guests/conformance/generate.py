"""Random instruction sequences, built into an image that runs them and prints what they did.

Every case is one short sequence with its initial registers. Most words are drawn by class and kept
if `instructions` knows no reason against them; instructions that write the PC or change mode need
controlled operands and are made by the templates below. Equal seeds give equal images.
"""

import random
import struct
from collections import Counter

import instructions
from instructions import V4, V4T, V5TE

# The same numbers as layout.h.
CASES, WINDOW, READ_ONLY, PRIVILEGED, NO_ACCESS = (
    0x00100000,
    0x01880000,
    0x01900000,
    0x01A00000,
    0x01B00000,
)
CASES_END = 0x01800000
HEAD = 24  # bytes before the first case
UNMAPPED = 0xE0000000

USR, FIQ, IRQ, SVC, ABT, UND, SYS = 0x10, 0x11, 0x12, 0x13, 0x17, 0x1B, 0x1F
PRIVILEGED_MODES = (FIQ, IRQ, SVC, ABT, UND, SYS)
THUMB_BIT, MASKED = 0x20, 0xC0
AL = 14 << 28
END_ARM, END_THUMB = 0xEF0ABCDE, 0xDFFE
NOP_ARM, NOP_THUMB = 0xE1A00000, 0x46C0

# Control register: MMU, alignment faults, caches, write buffer, 32-bit, R bit, I-cache. Alignment
# faults stay on because QEMU does unaligned loads as ARMv6 does.
CONTROL = 0x0000127F

# (weight, fixed value, mask of fixed bits, since)
ARM_CLASSES = [
    (14, 0x00000000, 0x0E000010, V4),  # data processing, shift by immediate
    (8, 0x00000010, 0x0E000090, V4),  # ... by register
    (10, 0x02000000, 0x0E000000, V4),  # ... immediate
    (3, 0x00000090, 0x0FE0F0F0, V4),  # MUL
    (3, 0x00200090, 0x0FE000F0, V4),  # MLA
    (4, 0x00800090, 0x0F8000F0, V4),  # long multiplies
    (2, 0x01000090, 0x0FB00FF0, V4),  # SWP
    (5, 0x00400090, 0x0E400090, V4),  # halfword and signed loads, immediate
    (4, 0x00000090, 0x0E400F90, V4),  # ... register
    (10, 0x04000000, 0x0E000000, V4),  # LDR, STR
    (8, 0x06000000, 0x0E000010, V4),
    (8, 0x08000000, 0x0E400000, V4),  # LDM, STM
    (1, 0x0F000000, 0x0F000000, V4),  # SWI
    (1, 0x0C000000, 0x0C000000, V4),  # coprocessors
    (2, 0x010F0000, 0x0FBF0FFF, V4),  # MRS
    (2, 0x0120F000, 0x0FB0FFF0, V4),  # MSR
    (1, 0x0320F000, 0x0FB0F000, V4),
    (1, 0x01000000, 0x0F900000, V4),  # the space of miscellaneous instructions
    (1, 0x06000010, 0x0E000010, V4),  # undefined
    (3, 0x016F0F10, 0x0FFF0FF0, V5TE),  # CLZ
    (4, 0x01000050, 0x0F900FF0, V5TE),  # QADD and kin
    (4, 0x01000080, 0x0F900090, V5TE),  # SMLAxy and kin
    (1, 0xF550F000, 0xFD70F000, V5TE),  # PLD
    (1, 0xF0000000, 0xF0000000, V5TE),  # unconditional space
    (3, 0, 0, V4),  # anything
]


class Code:
    """The code of a case: words of both states, and branches resolved when all is laid out."""

    def __init__(self):
        self.items = []  # (size, value) or (size, function of (own address, target address), target)
        self.barriers = []  # item numbers that no branch may cross
        self.joined = set()  # item numbers inside templates: no branch goes there

    def add(self, size, value):
        self.items.append((size, value, None))

    def branch(self, size, make, target):
        self.items.append((size, make, target))

    def align(self):
        """Makes the next item stand on a multiple of 4."""
        if sum(item[0] for item in self.items) % 4:
            self.add(2, NOP_THUMB)

    def barrier(self):
        self.barriers.append(len(self.items))

    def join(self, first):
        """The items from `first` on belong together."""
        self.joined.update(range(first + 1, len(self.items)))

    def assemble(self, base):
        addresses, address = [], base
        for size, _, _ in self.items:
            addresses.append(address)
            address += size
        out = bytearray()
        for number, (size, value, target) in enumerate(self.items):
            if target is not None:
                target = min(number + target, next(stop for stop in self.barriers if stop > number))
                while target in self.joined:
                    target += 1
                value = value(addresses[number], addresses[target])
            out += value.to_bytes(size, "little")
        return out


class Generator:
    def __init__(self, seed, architecture, privileged_share=0.25, thumb_share=0.5):
        self.random = random.Random(seed)
        self.architecture = architecture
        self.privileged_share = privileged_share
        self.thumb_share = thumb_share if architecture >= V4T else 0
        classes = [c for c in ARM_CLASSES if c[3] <= architecture]
        self.classes = [c[1:3] for c in classes]
        self.weights = [c[0] for c in classes]
        self.control = CONTROL
        #: The bits of a program status register that the architecture defines.
        self.status_mask = 0xF80000FF if architecture >= V5TE else 0xF00000FF
        self.left_out = Counter()
        self.made = Counter()

    # ---- initial state -------------------------------------------------------------------------

    def pointer(self):
        r = self.random.random()
        place = WINDOW + 256 + 4 * self.random.randrange(-24, 24)
        if r < 0.86:
            return place
        if r < 0.90:
            return place + self.random.randrange(4)
        return place - WINDOW + self.random.choice((READ_ONLY, PRIVILEGED, NO_ACCESS, UNMAPPED))

    def value(self):
        r = self.random.random()
        if r < 0.25:
            return self.random.randrange(40)
        if r < 0.45:
            return self.random.choice(
                (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x8000, 0x7FFF8000, 0xFFFF7FFF, 0xFF)
            )
        return self.random.getrandbits(32)

    # ---- random instructions -------------------------------------------------------------------

    def arm_word(self):
        rng = self.random
        while True:
            value, mask = rng.choices(self.classes, self.weights)[0]
            word = value | rng.getrandbits(32) & ~mask
            if not mask >> 28 and mask:
                word &= 0x0FFFFFFF
                word |= AL if rng.random() < 0.7 else rng.randrange(15) << 28
            word = self.aim(word)
            name, reason = instructions.arm(
                word, self.architecture, self.user, self.mode not in (USR, SYS)
            )
            if reason:
                self.left_out[reason] += 1
                continue
            if self.destinations(word, name) & self.reserved and rng.random() < 0.95:
                continue
            self.made[name] += 1
            self.forget(self.destinations(word, name))
            return word

    def aim(self, word):
        """Gives loads and stores a base that points somewhere and a small offset, mostly."""
        rng = self.random
        group = word >> 25 & 7
        extra = group == 0 and word & 0x90 == 0x90 and word & 0x60
        swap = word & 0x0FB000F0 == 0x01000090
        if not (group in (2, 3, 4) or extra or swap) or rng.random() < 0.1:
            return word
        if group == 3 and word & 0x10:
            return word
        word = word & ~0xF0000 | rng.choice(self.pointers) << 16
        if group == 2:
            offset = rng.randrange(64) if word >> 22 & 1 else 4 * rng.randrange(32)
            word = word & ~0xFFF | offset
        elif group == 3 and self.small:
            word = word & ~0xF | rng.choice(self.small)
            if rng.random() < 0.7:
                word = word & ~0xFE0 | rng.randrange(4) << 7
        elif extra:
            if word >> 22 & 1:
                word = word & ~0xF00 | rng.randrange(4) << 8
                if rng.random() < 0.8:
                    word &= ~1
            elif self.small:
                word = word & ~0xF | rng.choice(self.small)
        return word

    @staticmethod
    def destinations(word, name):
        """Registers that the instruction may write, as a mask; generous."""
        if name in ("ldm", "stm"):
            return word & 0xFFFF if name == "ldm" else 0
        if name.startswith(("str", "msr", "swi", "undefined", "coprocessor", "pld", "cmp", "tst")):
            return 0
        mask = 1 << (word >> 12 & 15)
        if name.startswith(("mul", "mla", "umull", "umlal", "smull", "smlal", "smla", "smul")):
            mask |= 1 << (word >> 16 & 15)
        return mask

    def forget(self, mask):
        if mask:
            keep = [r for r in self.pointers if not mask >> r & 1]
            self.pointers = keep or self.pointers
            self.small = [r for r in self.small if not mask >> r & 1]

    def thumb_half(self):
        rng = self.random
        while True:
            half = rng.getrandbits(16)
            top = half >> 12
            if 5 <= top <= 8 or top == 12:  # a base that points somewhere
                low = [r for r in self.pointers if r < 8]
                if low and rng.random() < 0.9:
                    if top == 12:
                        half = half & ~0x700 | rng.choice(low) << 8
                    else:
                        half = half & ~0x38 | rng.choice(low) << 3
                        small = [r for r in self.small if r < 8]
                        if top == 5 and small:
                            half = half & ~0x1C0 | rng.choice(small) << 6
            name, reason = instructions.thumb(half, self.architecture)
            if reason:
                self.left_out[reason] += 1
                continue
            if name in ("t.add.high", "t.mov.high"):
                target = half & 7 | half >> 4 & 8
                if target == 13:
                    continue
                mask = 1 << target
            elif top in (2, 3, 4, 9, 10):
                mask = 1 << (half >> 8 & 7) | 1 << (half & 7)
            elif name == "t.ldm":
                mask = half & 0xFF
            elif top < 9:
                mask = 1 << (half & 7)
            else:
                mask = 0
            if mask & self.reserved and rng.random() < 0.9:
                continue
            self.made[name] += 1
            self.forget(mask)
            return half

    def thumb_instruction(self, code):
        code.add(2, self.thumb_half())

    # ---- templates -----------------------------------------------------------------------------

    def condition(self):
        return AL if self.random.random() < 0.4 else self.random.randrange(15) << 28

    def free(self, count=1, limit=13, low=0):
        """Registers for a template to overwrite."""
        choice = [r for r in range(low, limit) if not self.reserved >> r & 1]
        registers = self.random.sample(choice, count)
        for register in registers:
            self.forget(1 << register)
        return registers

    def skip(self):
        return self.random.randrange(1, 5)

    def point(self, code, register, alignment=4):
        """Three instructions that make the register point into the window."""
        offset = 128 + alignment * self.random.randrange(128 // alignment)
        code.add(4, AL | 0x03A00506 | register << 12)  # mov r, #0x01800000
        code.add(4, AL | 0x03800702 | register << 16 | register << 12)  # orr r, r, #0x00080000
        code.add(4, AL | 0x03800000 | register << 16 | register << 12 | offset)

    @staticmethod
    def pc_relative(destination, target_bits=0, condition=AL):
        """ADD or SUB destination, pc, #distance."""

        def make(address, target):
            distance = target + target_bits - (address + 8)
            operation = 0x02800000 if distance >= 0 else 0x02400000
            assert abs(distance) < 256
            return condition | operation | 0xF0000 | destination << 12 | abs(distance)

        return make

    def arm_template(self, code):
        kinds = ["b", "bl", "add.pc", "mov.pc", "ldr.pc", "ldm.pc", "unmapped"]
        weights = [5, 3, 2, 3, 3, 3, 0.3]
        if self.architecture >= V4T:
            kinds.append("bx")
            weights.append(3)
        if self.architecture >= V5TE:
            kinds += ["blx", "double"]
            weights += [3, 8]
        if not self.user:
            kinds += ["msr.mode", "mrs.spsr", "msr.spsr", "return", "return.ldm", "bank"]
            weights += [4, 2, 3, 4, 3, 5]
        kind = self.random.choices(kinds, weights)[0]
        self.made["template." + kind] += 1
        first = len(code.items)
        getattr(self, "arm_" + kind.replace(".", "_"))(code)
        code.join(first)

    def arm_b(self, code, link=0):
        condition = self.condition()

        def make(address, target):
            return condition | 0x0A000000 | link << 24 | (target - address - 8) >> 2 & 0xFFFFFF

        code.branch(4, make, self.skip())

    def arm_bl(self, code):
        self.arm_b(code, link=1)
        if self.reserved >> 14 & 1:
            self.reserved &= ~(1 << 14)
        self.forget(1 << 14)

    def arm_add_pc(self, code):
        code.branch(4, self.pc_relative(15, 0, self.condition()), self.skip())

    def indirect(self, code, word, thumb_target=0):
        """ADR register, target; then `word` with that register as Rm. The pair is not split."""
        (register,) = self.free()
        skip = self.skip()
        code.branch(4, self.pc_relative(register, thumb_target), skip + 1)
        code.add(4, word | register)
        self.forget(1 << 14)

    def arm_mov_pc(self, code):
        self.indirect(code, self.condition() | 0x01A0F000)

    def arm_bx(self, code):
        self.indirect(code, self.condition() | 0x012FFF10)

    def arm_blx(self, code):
        self.indirect(code, self.condition() | 0x012FFF30)

    def arm_ldr_pc(self, code):
        base, target = self.free(2)
        self.point(code, base)
        offset = 4 * self.random.randrange(16)
        code.branch(4, self.pc_relative(target), 2 + self.skip())
        code.add(4, AL | 0x05800000 | base << 16 | target << 12 | offset)
        writeback = self.random.choice((0x05900000, 0x05B00000))
        code.add(4, self.condition() | writeback | base << 16 | 15 << 12 | offset)

    def arm_ldm_pc(self, code, user_bits=0):
        base, target = self.free(2)
        others = self.random.getrandbits(13) & ~(1 << base) & ~self.reserved
        registers = others | 0x8000
        count = bin(registers).count("1")
        self.point(code, base)
        up, before = self.random.randrange(2), self.random.randrange(2)
        writeback = 0 if user_bits else self.random.randrange(2)
        lowest = 0 if up else -4 * (count - 1)
        if before:
            lowest += 4 if up else -4
        place = lowest + 4 * (count - 1)
        code.branch(4, self.pc_relative(target), 2 + self.skip())
        store = 0x05800000 if place >= 0 else 0x05000000
        code.add(4, AL | store | base << 16 | target << 12 | abs(place))
        condition = AL if user_bits else self.condition()
        flags = before << 24 | up << 23 | writeback << 21 | user_bits
        code.add(4, condition | 0x08100000 | flags | base << 16 | registers)
        self.forget(others)

    def arm_unmapped(self, code):
        (register,) = self.free()
        code.add(4, AL | 0x03A0020E | register << 12)  # mov r, #0xe0000000
        code.add(4, self.condition() | 0x01A0F000 | register)

    def arm_double(self, code):
        """LDRD and STRD in every addressing mode, on multiples of 8."""
        rng = self.random
        base, index = self.free(2)
        pairs = [r for r in range(0, 12, 2) if not (1 << base | 1 << index) & 3 << r]
        pairs = [r for r in pairs if not self.reserved & 3 << r]
        if not pairs:
            return
        pair = rng.choice(pairs)
        self.point(code, base, alignment=8)
        store = rng.randrange(2)
        word = AL | 0xD0 | store << 5 | base << 16 | pair << 12 | rng.randrange(2) << 23
        word |= rng.choice((0, 1 << 24, 3 << 21 | 1 << 24 & ~(1 << 22)))
        if word >> 21 & 1 and not word >> 24 & 1:
            word &= ~(1 << 21)
        word &= ~(1 << 22)
        if rng.randrange(2):
            code.add(4, AL | 0x03A00000 | index << 12 | 8 * rng.randrange(8))
            word |= index
        else:
            offset = 8 * rng.randrange(8)
            word |= 1 << 22 | offset >> 4 << 8 | offset & 15
        code.add(4, word)
        if not store:
            self.forget(3 << pair)

    # ---- privileged templates ------------------------------------------------------------------

    def status(self, register, code, mode, thumb=0):
        """Two instructions that put a valid PSR into the register."""
        flags = self.random.randrange(16)
        code.add(4, AL | 0x03A00000 | register << 12 | MASKED | mode | thumb)
        code.add(4, AL | 0x03800200 | register << 16 | register << 12 | flags)

    def other_mode(self):
        self.barrier_mode = self.random.choice(PRIVILEGED_MODES)
        return self.barrier_mode

    def arm_msr_mode(self, code):
        mode = self.other_mode()
        code.barrier()
        if self.random.randrange(2):
            code.add(4, AL | 0x0321F000 | MASKED | mode)  # msr cpsr_c, #
        else:
            (register,) = self.free(1, 8)
            self.status(register, code, mode)
            code.add(4, AL | 0x0129F000 | register)  # msr cpsr_fc, register
        code.barrier()
        self.enter_mode(mode)

    def enter_mode(self, mode):
        """Forgets what is known of banked registers."""
        self.mode = mode
        self.forget(0x6000 if FIQ not in (mode,) else 0x7F00)
        self.pointers = [r for r in self.pointers if r < 8] or [0]
        self.small = [r for r in self.small if r < 8]

    def arm_mrs_spsr(self, code):
        if self.mode == SYS:
            return
        (register,) = self.free(1, 8)
        code.add(4, self.condition() | 0x014F0000 | register << 12)

    def arm_msr_spsr(self, code):
        if self.mode == SYS:
            return
        (register,) = self.free(1, 8)
        self.status(register, code, self.other_mode())
        fields = self.random.choice((9, 15, 8, 1))
        code.add(4, AL | 0x0160F000 | fields << 16 | register)

    def prepare_return(self, code):
        mode = self.random.choice((*PRIVILEGED_MODES, USR))
        (register,) = self.free(1, 8)
        code.barrier()
        self.status(register, code, mode)
        code.add(4, AL | 0x016FF000 | register)  # msr spsr_cxsf, register
        return mode

    def arm_return(self, code):
        """MOVS pc, register and SUBS pc, register, #n from a mode with an SPSR."""
        if self.mode == SYS:
            return
        mode = self.prepare_return(code)
        (register,) = self.free(1, 8)
        back = 4 * self.random.randrange(2)
        code.branch(4, self.pc_relative(register, back), 2)
        if back:
            code.add(4, AL | 0x0250F000 | register << 16 | back)
        else:
            code.add(4, AL | 0x01B0F000 | register)
        self.returned(code, mode)

    def arm_return_ldm(self, code):
        if self.mode == SYS:
            return
        mode = self.prepare_return(code)
        base, target = self.free(2, 8)
        self.point(code, base)
        code.branch(4, self.pc_relative(target), 3)
        code.add(4, AL | 0x05800004 | base << 16 | target << 12)
        other = self.random.choice(
            [r for r in range(8) if r != base and not self.reserved >> r & 1]
        )
        code.add(4, AL | 0x08D08000 | base << 16 | 1 << other)  # ldmia base, {other, pc}^
        self.forget(1 << other)
        self.returned(code, mode)

    def returned(self, code, mode):
        code.barrier()
        self.enter_mode(mode)
        self.user = mode == USR

    def arm_bank(self, code):
        """LDM and STM of the user bank, with the idle instruction that A4.1.21 asks for."""
        if self.mode == SYS:
            return
        (base,) = self.free(1, 8)
        self.point(code, base)
        load = self.random.randrange(2)
        registers = self.random.getrandbits(15) & ~(1 << base) & ~self.reserved
        if load:
            registers &= 0x7FFF
            self.forget(registers)
        direction = self.random.randrange(4) << 23
        code.add(4, AL | 0x08400000 | load << 20 | direction | base << 16 | (registers or 1 << 14))
        code.add(4, NOP_ARM)

    # ---- Thumb templates -----------------------------------------------------------------------

    def thumb_template(self, code):
        kinds = ["condition", "b", "bl", "bx", "mov_pc", "pop"]
        weights = [5, 2, 3, 2, 2, 3]
        if self.architecture >= V5TE:
            kinds.append("blx")
            weights.append(2)
        kind = self.random.choices(kinds, weights)[0]
        self.made["template.thumb." + kind] += 1
        first = len(code.items)
        getattr(self, "thumb_" + kind)(code)
        code.join(first)

    def thumb_condition(self, code):
        condition = self.random.randrange(14)
        code.branch(2, lambda a, t: 0xD000 | condition << 8 | (t - a - 4) >> 1 & 0xFF, self.skip())

    def thumb_b(self, code):
        code.branch(2, lambda a, t: 0xE000 | (t - a - 4) >> 1 & 0x7FF, self.skip())

    def thumb_bl(self, code):
        def make(address, target):
            distance = target - address - 4
            return 0xF000 | distance >> 12 & 0x7FF | (0xF800 | distance >> 1 & 0x7FF) << 16

        self.forget(1 << 14)
        code.branch(4, make, self.skip())

    def thumb_indirect(self, code, jump):
        """The register gets the address of the word behind the jump, with bit 0 set."""
        (register,) = self.free(1, 8)
        code.align()
        # add register, pc, #4: the PC reads as this address + 4, so the word at + 8.
        code.add(2, 0xA000 | register << 8 | 1)
        code.add(2, 0x3001 | register << 8)
        code.add(2, jump | register << 3)
        code.add(2, NOP_THUMB)
        self.forget(1 << 14)

    def thumb_bx(self, code):
        self.thumb_indirect(code, 0x4700)

    def thumb_blx(self, code):
        self.thumb_indirect(code, 0x4780)

    def thumb_mov_pc(self, code):
        self.thumb_indirect(code, 0x4687)

    def thumb_pop(self, code):
        """PUSH of an address, POP of the PC."""
        (register,) = self.free(1, 8)
        code.align()
        code.add(2, 0xA001 | register << 8)
        code.add(2, 0x3001 | register << 8)
        code.add(2, 0xB400 | 1 << register)
        code.add(2, 0xBD00)

    # ---- a case --------------------------------------------------------------------------------

    def case(self, base, length):
        rng = self.random
        self.user = rng.random() >= self.privileged_share
        self.mode = USR if self.user else rng.choice(PRIVILEGED_MODES)
        mode = self.mode
        registers = [self.value() for _ in range(15)]
        self.pointers = rng.sample(range(8), 3) + rng.sample(range(8, 13), 2)
        for register in [*self.pointers, 13]:
            registers[register] = self.pointer()
        registers[13] = WINDOW + 256 + 4 * rng.randrange(-24, 24)
        self.small = [r for r in range(13) if registers[r] < 64]
        self.reserved = 1 << self.pointers[0] | 1 << self.pointers[3] | 1 << 13
        thumb = rng.random() < self.thumb_share
        start_thumb = thumb
        code = Code()
        while len(code.items) < length:
            if self.architecture >= V4T and rng.random() < 0.04:
                thumb = self.switch(code, thumb)
            elif thumb:
                if rng.random() < 0.12:
                    self.thumb_template(code)
                else:
                    self.thumb_instruction(code)
            elif rng.random() < 0.12:
                self.arm_template(code)
            else:
                code.add(4, self.arm_word())
        code.barrier()
        if thumb:
            code.add(2, END_THUMB)
            code.align()
        else:
            code.add(4, END_ARM)
        cpsr = rng.randrange(16) << 28 | MASKED | mode | (THUMB_BIT if start_thumb else 0)
        body = code.assemble(base + 18 * 4)
        body += b"\0" * (-len(body) % 4)
        head = struct.pack("<18I", 18 * 4 + len(body), cpsr, rng.getrandbits(32), *registers)
        return head + body, len(code.items)

    def switch(self, code, thumb):
        """To the other state."""
        first = len(code.items)
        code.barrier()
        if thumb:
            code.align()
            code.add(2, 0x4778)  # bx pc
            code.add(2, NOP_THUMB)
        elif self.architecture >= V5TE and self.random.randrange(2):
            code.add(4, 0xFAFFFFFF)  # blx to the next word
            self.forget(1 << 14)
        else:
            (register,) = self.free()
            code.add(4, AL | 0x028F0001 | register << 12)  # add register, pc, #1
            code.add(4, AL | 0x012FFF10 | register)  # bx register, to the next word
        code.join(first)
        code.barrier()
        return not thumb


def blob(generator, cases, length=12, verbose=False, only=None):
    """The generator's next cases in memory format; with `only`, just that one of them. Returns
    (bytes, number of instructions)."""
    body = bytearray()
    instructions = kept = 0
    for number in range(cases):
        case, count = generator.case(CASES + HEAD + len(body), length)
        if only is None or number == only:
            body += case
            kept += 1
            instructions += count
        if CASES + HEAD + len(body) > CASES_END - 4096:
            raise ValueError("the cases do not fit: ask for fewer or shorter ones")
    settings = int(verbose), generator.status_mask, generator.control
    head = struct.pack("<4s5I", b"CASE", kept, *settings, HEAD + len(body))
    return bytes(head + body), instructions


def attach(elf, address, payload):
    """The ELF file with one more loaded segment."""
    (entry,) = struct.unpack_from("<I", elf, 24)
    (offset,) = struct.unpack_from("<I", elf, 28)
    size, number = struct.unpack_from("<HH", elf, 42)
    segments = []
    for i in range(number):
        fields = struct.unpack_from("<8I", elf, offset + i * size)
        if fields[0] == 1 and fields[4]:
            segments.append((fields[3], elf[fields[1] : fields[1] + fields[4]]))
    segments.append((address, payload))
    out = bytearray(
        struct.pack(
            "<16sHHIIIIIHHHHHH",
            b"\x7fELF\1\1\1",
            2,
            40,
            1,
            entry,
            52,
            0,
            0x5000200,
            52,
            32,
            len(segments),
            40,
            0,
            0,
        )
    )
    place = 52 + 32 * len(segments)
    for physical, data in segments:
        place = (place + 7) & ~7
        out += struct.pack("<8I", 1, place, physical, physical, len(data), len(data), 7, 4)
        place += len(data)
    for _, data in segments:
        out += b"\0" * (-len(out) % 8) + data
    return bytes(out)
