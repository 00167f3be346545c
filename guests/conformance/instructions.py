"""The ARM and Thumb encodings up to ARMv5TE, as far as a test needs to know them.

`arm(word, architecture)` and `thumb(half, architecture)` give the name of an encoding and, where
the architecture leaves its result open or the test cannot run it bare, the reason for leaving it
out. Section numbers are those of the ARM Architecture Reference Manual, DDI 0100, issue E and
later.
"""

V4, V4T, V5TE, V7 = 4, 4.5, 5, 7  # ordered, so that "since ARMv4T" is a comparison

# Reasons. Each names one thing that two correct implementations may do differently ...
CONDITION_NV = "condition NV before ARMv5 (A3.2.1)"
PC_OPERAND = "r15 where the encoding does not allow it"
SAME_REGISTERS = "two operands that may not be the same register"
SHOULD_BE = "a should-be-zero or should-be-one field that is not"
BASE_WRITEBACK = "write-back to r15, to a loaded or stored register, or to the index"
EMPTY_LIST = "block transfer without registers (A4.1.20)"
USER_BANK = "user-bank transfer or SPSR in a mode without one, or with write-back"
STORED_PC = "stored r15 is implementation-defined (A2.4.3)"
HALF_BRANCH = "half of a Thumb BL pair alone (A7.1.17)"
HIGH_REGISTERS = "Thumb high-register form with low registers or r15"
BKPT_CONDITION = "conditional BKPT (A4.1.7)"
JAZELLE = "BXJ: state of the Jazelle extension is not modelled"
# ... or that the generator makes itself, because a random operand would leave the case.
WRITES_PC = "writes r15: made by template"
CONTROL = "changes mode or state: made by template"
DOUBLEWORD = "LDRD, STRD: made by template, as the address must be a multiple of 8 (A4.1.26)"
OWN_CALL = "SWI number of the test itself or of semihosting"
RESERVED_STATUS = "privileged MSR to the PSR's reserved middle bytes (A2.5)"
# Where QEMU 7.2 departs from the architecture.
QEMU_HALT = "HLT: a semihosting call on QEMU, undefined before ARMv8"
QEMU_HINTS = (
    "QEMU executes MSR CPSR_, #n as a hint (WFI stops it) on every core; no effect before ARMv6K"
)
QEMU_THUMB2 = "QEMU executes CBZ, CBNZ, IT and hints on every core; undefined before ARMv6T2"
QEMU_VMRS_IN_BLOCK = (
    "VMRS of an identification in an IT block: QEMU leaves the block's state as it was"
)
QEMU_ALIGNED_TO_32 = "QEMU checks an alignment to 32 bytes as one to 16"
QEMU_SMC_IN_BLOCK = "undefined SMC in an IT block: QEMU saves the state as if outside of it"
COPROCESSOR_15 = "CP15: compared by the MMU program"
COPROCESSOR_14 = "CP14 register: the XScale's; QEMU has it only on its own boards with that core"


def bits(word, high, low):
    return word >> low & (1 << (high - low + 1)) - 1


def arm(word, architecture, user=True, own_spsr=False):
    """(name, reason or None) of an ARM-state instruction; `own_spsr`: the mode has an SPSR."""
    condition = word >> 28
    rn, rd, rs, rm = bits(word, 19, 16), bits(word, 15, 12), bits(word, 11, 8), word & 15
    if condition == 15:
        if architecture < V5TE:
            return "nv", CONDITION_NV
        return unconditional(word, rd)
    group = bits(word, 27, 25)
    s = word >> 20 & 1
    if group == 0:
        if word & 0x90 == 0x90:
            return multiply_or_extra(word, architecture, rn, rd, rs, rm)
        if word & 0x01900000 == 0x01000000:
            return miscellaneous(word, architecture, user, own_spsr, rn, rd, rs, rm)
        return data_processing(word, rn, rd, rs, rm, s, by_register=bool(word & 0x10))
    if group == 1:
        if word & 0x01900000 == 0x01000000:
            if word & 0x00200000:
                return move_to_status(word, user, rd, 0)
            return "undefined.dp", None
        return data_processing(word, rn, rd, rs, 0, s, by_register=False)
    if group == 2 or group == 3:
        if group == 3 and word & 0x10:
            return "undefined.media", None
        return load_store(word, rn, rd, rm, register=group == 3)
    if group == 4:
        return block(word, rn)
    if group == 5:
        return "b", WRITES_PC
    if group == 7 and word >> 24 & 1:
        number = word & 0xFFFFFF
        return "swi", OWN_CALL if number in (0xABCDE, 0x123456) else None
    return coprocessor(word, rs)


def coprocessor(word, number):
    if number == 15:
        return "cp15", COPROCESSOR_15
    if number == 14 and word >> 25 & 7 == 7 and word & 0x10:
        return "cp14", COPROCESSOR_14
    return "coprocessor", None


def unconditional(word, rd):
    if bits(word, 27, 25) == 5:
        return "blx.immediate", WRITES_PC
    if word & 0x0D70F000 == 0x0550F000:
        # PLD has no effect that a program can see; its index may not be r15.
        if word & 0x02000000 and (word & 0x10 or word & 15 == 15):
            return "pld", PC_OPERAND
        return "pld", None
    if word & 0x0D700000 == 0x05500000:
        return "pld", SHOULD_BE
    if bits(word, 27, 26) == 3 and bits(word, 27, 24) != 15:
        return coprocessor(word, bits(word, 11, 8))
    return "undefined.nv", None


def data_processing(word, rn, rd, rs, rm, s, by_register):
    operation = bits(word, 24, 21)
    name = (
        [
            "and",
            "eor",
            "sub",
            "rsb",
            "add",
            "adc",
            "sbc",
            "rsc",
            "tst",
            "teq",
            "cmp",
            "cmn",
            "orr",
            "mov",
            "bic",
            "mvn",
        ][operation]
        + ("s" if s else "")
        + (".rs" if by_register else "")
    )
    compare = operation in (8, 9, 10, 11)
    unary = operation in (13, 15)
    if (compare and rd != 0) or (unary and rn != 0):
        return name, SHOULD_BE
    if (by_register and 15 in (rd, rs, rm)) or (by_register and rn == 15 and not unary):
        return name, PC_OPERAND
    if rd == 15 and not compare:
        return name, WRITES_PC
    return name, None


def move_to_status(word, user, rd, rm):
    if rd != 15 or (not word >> 25 & 1 and bits(word, 11, 8)):
        return "msr", SHOULD_BE
    if rm == 15:
        return "msr", PC_OPERAND
    if word & 0x00400000:
        return "msr.spsr", CONTROL
    if word & 0x020F0000 == 0x02000000:
        return "msr", QEMU_HINTS
    if word & 0x00060000 and not user:
        return "msr", RESERVED_STATUS
    # In user mode only the flags byte changes (A4.1.39).
    return "msr", None if user or not word & 0x00010000 else CONTROL


def miscellaneous(word, architecture, user, own_spsr, rn, rd, rs, rm):
    operation, kind = bits(word, 22, 21), bits(word, 7, 4)
    if kind == 0:
        if operation & 1:
            return move_to_status(word, user, rd, rm)
        if rn != 15 or word & 0xFFF:
            return "mrs", SHOULD_BE
        if rd == 15:
            return "mrs", PC_OPERAND
        return "mrs", USER_BANK if operation & 2 and not own_spsr else None
    if kind == 1 and operation == 1:
        return "bx", WRITES_PC if architecture >= V4T else None
    if kind == 7 and operation == 0:
        return "undefined.misc", QEMU_HALT
    if architecture < V5TE:
        return "undefined.misc", None
    if kind == 1 and operation == 3:
        if rn != 15 or rs != 15:
            return "clz", SHOULD_BE
        return "clz", PC_OPERAND if 15 in (rd, rm) else None
    if kind == 2 and operation == 1:
        return "bxj", JAZELLE
    if kind == 3 and operation == 1:
        return "blx", WRITES_PC
    if kind == 5:
        if rs:
            return "qadd", SHOULD_BE
        return "qadd", PC_OPERAND if 15 in (rn, rd, rm) else None
    if kind == 7 and operation == 1:
        return "bkpt", None if word >> 28 == 14 else BKPT_CONDITION
    if kind & 9 == 8:
        return halfword_multiply(word, operation, rn, rd, rs, rm)
    return "undefined.misc", None


def halfword_multiply(word, operation, rd, rn, rs, rm):
    name = ["smla", "smlaw", "smlal", "smul"][operation]
    if operation == 1 and word & 0x20:
        name = "smulw"
    if name in ("smul", "smulw") and rn:
        return name, SHOULD_BE
    if name == "smlal":
        if rd == rn:
            return name, SAME_REGISTERS
    if 15 in (rd, rs, rm) or (name in ("smla", "smlaw", "smlal") and rn == 15):
        return name, PC_OPERAND
    return name, None


def multiply_or_extra(word, architecture, rn, rd, rs, rm):
    kind = bits(word, 6, 5)
    if kind:
        return extra_load_store(word, architecture, rn, rd, rs, rm, kind)
    operation = bits(word, 24, 21)
    if operation < 2:
        name = ["mul", "mla"][operation]
        if operation == 0 and rd:  # here rn is the destination, rd the addend
            return name, SHOULD_BE
        if 15 in (rn, rs, rm) or (operation and rd == 15):
            return name, PC_OPERAND
        return name, SAME_REGISTERS if rn == rm else None
    if operation < 4:
        return "undefined.multiply", None
    if operation < 8:
        name = ["umull", "umlal", "smull", "smlal.long"][operation - 4]
        if 15 in (rn, rd, rs, rm):
            return name, PC_OPERAND
        return name, SAME_REGISTERS if rn == rd or rm in (rn, rd) else None
    if operation in (8, 10) and not word >> 20 & 1:
        if rs:
            return "swp", SHOULD_BE
        if 15 in (rn, rd, rm):
            return "swp", PC_OPERAND
        return "swp", SAME_REGISTERS if rn in (rd, rm) else None
    return "undefined.swap", None


def extra_load_store(word, architecture, rn, rd, rs, rm, kind):
    before, immediate, writeback, load = (word >> n & 1 for n in (24, 22, 21, 20))
    double = not load and kind >= 2
    if double and architecture < V5TE:
        return "undefined.double", None
    name = "ldrd" if double else ["", "h", "sb", "sh"][kind] + (".load" if load else ".store")
    if not before and writeback:
        return name, SHOULD_BE
    if not immediate and rs:
        return name, SHOULD_BE
    if (not immediate and rm == 15) or rd == 15:
        return name, PC_OPERAND
    if writeback or not before:
        if rn == 15 or rn == rd or (not immediate and rn == rm):
            return name, BASE_WRITEBACK
    if double:
        return name, None if rd & 1 else DOUBLEWORD
    return name, None


def load_store(word, rn, rd, rm, register):
    before, byte, writeback, load = (word >> n & 1 for n in (24, 22, 21, 20))
    name = ("ldr" if load else "str") + ("b" if byte else "")
    if not before and writeback:
        name += "t"
    if register and rm == 15:
        return name, PC_OPERAND
    if writeback or not before:
        if rn == 15 or rn == rd or (register and rn == rm):
            return name, BASE_WRITEBACK
    if rd == 15:
        if byte or name.endswith("t"):
            return name, PC_OPERAND
        return name, WRITES_PC if load else STORED_PC
    return name, None


def block(word, rn):
    user_bank, writeback, load = (word >> n & 1 for n in (22, 21, 20))
    name = "ldm" if load else "stm"
    registers = word & 0xFFFF
    if not registers:
        return name, EMPTY_LIST
    if rn == 15:
        return name, PC_OPERAND
    if user_bank:
        return name, USER_BANK
    if writeback and registers >> rn & 1:
        # A store with the base as lowest register stores its old value (A4.1.97).
        if load or registers & (1 << rn) - 1:
            return name, BASE_WRITEBACK
    if registers & 0x8000:
        return name, WRITES_PC if load else STORED_PC
    return name, None


def thumb(half, architecture):
    """(name, reason or None) of a Thumb-state instruction."""
    top = half >> 12
    if top < 4:
        if half >> 11 == 3:
            return "t.add3", None
        return "t." + ["lsl", "lsr", "asr", "", "mov", "cmp", "add", "sub"][half >> 11], None
    if top == 4:
        if half >> 11 == 9:
            return "t.ldr.pc", None
        if half >> 10 == 16:
            return f"t.alu{bits(half, 9, 6)}", None
        return thumb_high(half, architecture)
    if top in (5, 6, 7, 8, 9):
        return f"t.ldst{half >> 9 if top == 5 else half >> 11}", None
    if top == 10:
        return "t.add.address", None
    if top == 11:
        return thumb_miscellaneous(half, architecture)
    if top == 12:
        base, registers = bits(half, 10, 8), half & 0xFF
        if not registers:
            return "t.ldm", EMPTY_LIST
        if not half & 0x800 and registers >> base & 1 and registers & (1 << base) - 1:
            return "t.stm", BASE_WRITEBACK
        return "t.ldm" if half & 0x800 else "t.stm", None
    if top == 13:
        condition = bits(half, 11, 8)
        if condition == 14:
            return "t.undefined.branch", None
        if condition == 15:
            return "t.swi", OWN_CALL if half & 0xFF in (0xFE, 0xAB) else None
        return "t.b.condition", WRITES_PC
    if half >> 11 == 28:
        return "t.b", WRITES_PC
    if half >> 11 == 29 and (architecture < V5TE or half & 1):
        return "t.undefined.blx", HALF_BRANCH
    return "t.bl", HALF_BRANCH


def thumb_high(half, architecture):
    operation = bits(half, 9, 8)
    rd = half & 7 | half >> 4 & 8
    if operation == 3:
        if half & 7:
            return "t.bx", SHOULD_BE
        return "t.bx", WRITES_PC
    name = "t." + ["add", "cmp", "mov"][operation] + ".high"
    if not half & 0xC0:
        return name, HIGH_REGISTERS
    if rd == 15:
        return name, HIGH_REGISTERS if operation == 1 else WRITES_PC
    return name, None


def thumb_miscellaneous(half, architecture):
    kind = bits(half, 11, 8)
    if kind == 0:
        return "t.add.sp", None
    if kind in (4, 5, 12, 13):
        if not half & 0x1FF:
            return "t.push", EMPTY_LIST
        if kind == 13:
            return "t.pop", WRITES_PC
        return "t.push" if kind < 8 else "t.pop", None
    if kind & 5 == 1 or kind == 15:
        return "t.undefined.misc", QEMU_THUMB2
    if half & 0xFFC0 == 0xBA80:
        return "t.undefined.misc", QEMU_HALT
    if kind == 14 and architecture >= V5TE:
        return "t.bkpt", None
    return "t.undefined.misc", None
