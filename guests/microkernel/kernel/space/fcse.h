// What the two FCSE modes have in common.
#ifndef FCSE_H
#define FCSE_H

#include "../core/core.h"
#include "space.h"

#define FCSE_PIDS 95 // slots 0-94; the 95th ends where the kernel's part begins
#define FCSE_DOMAIN 1

// How many there are on this core.
static inline u32 fcse_pids(void)
{
	return core->pids < FCSE_PIDS ? core->pids : FCSE_PIDS;
}

// Each space has a page directory of its own, with entries at modified addresses.
static inline bool fcse_fault(struct space *space, u32 address)
{
	(void)space, (void)address;
	return false;
}

// The TLB is emptied on every switch.
static inline bool fcse_in_tlb(struct space *space)
{
	return space == cpu.active;
}

static inline void fcse_directory_changed(struct space *space, u32 section)
{
	u32 entry = directory_read(space->directory, section);
	directory_write(space->directory, section, entry | FIRST_DOMAIN(FCSE_DOMAIN));
}

#endif
