// Page-table descriptors of ARMv4 and ARMv5 (ARM DDI 0100I, B4.7) and the bits of registers that the kernel
// uses; in assembly too, so that no number has a suffix.
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

// First level: a section of 1 MB, or a coarse table of 256 pages of 4 KB.
#define SECTION_SHIFT 20
#define SECTION_BYTES (1 << SECTION_SHIFT)
#define DIRECTORY_BYTES 0x4000 // 4,096 entries
#define FIRST_COARSE_TABLE 0x1
#define FIRST_SECTION 0x2
#define FIRST_MUST_BE_ONE 0x10   // but not on XScale (Core Developer's Manual, 3.2.2.1)
#define FIRST_DOMAIN(domain) ((domain) << 5)
#define FIRST_DOMAIN_OF(entry) ((entry) >> 5 & 15)
#define FIRST_TABLE_OF(entry) ((entry) & ~0x3ffu)
#define FIRST_BUFFERED 0x4
#define FIRST_CACHED 0x8
#define FIRST_PRIVILEGED (1 << 10) // AP = 01: the user may do nothing

// Second level: a small page, with the same access for each of its quarters.
#define SECOND_SMALL_PAGE 0x2
#define SECOND_BUFFERED 0x4
#define SECOND_CACHED 0x8
#define SECOND_USER_READS 0xaa0  // AP = 10 four times: the kernel writes, the user reads
#define SECOND_USER_WRITES 0xff0 // AP = 11 four times

// Domain access control register: two bits for each domain.
#define DOMAIN_CLIENT(domain) (1 << (2 * (domain)))

// Fault status (B4.6.1): bits 3:0, of which 1101 and 1111 are refused permissions.
#define FAULT_IS_PERMISSION(status) (((status) & 0xd) == 0xd)

// Control register (B3.4): what is on, and what is off.
#define CONTROL_MMU 0x1
#define CONTROL_ALIGNMENT_FAULTS 0x2
#define CONTROL_DATA_CACHE 0x4
#define CONTROL_WRITE_BUFFER 0x8
#define CONTROL_ONES 0x70 // 32-bit mode and addresses, late aborts: fixed on these cores
#define CONTROL_BRANCH_PREDICTION 0x800
#define CONTROL_INSTRUCTION_CACHE 0x1000
#define CONTROL_HIGH_VECTORS 0x2000
#define CONTROL_BIG_ENDIAN 0x80
#define CONTROL_SYSTEM_PROTECTION 0x100
#define CONTROL_ROM_PROTECTION 0x200

// Program status.
#define STATUS_USER 0x10
#define STATUS_THUMB 0x20

#endif
