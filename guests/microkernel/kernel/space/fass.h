// Between fass.c and fass_shared.c.
#ifndef FASS_H
#define FASS_H

#include "space.h"

#define DOMAINS 16 // 0 is the kernel's

struct region;

static inline u32 client(u32 domain)
{
	return 1u << 2 * domain;
}

// fass.c
u32 fass_allocate(u32 kept);
void fass_give(u32 domain, struct region *region);
void fass_abandon(u32 domain);
void fass_flush(u32 maintenance);

// fass_shared.c; all of them find nothing when no section is shared.
void fass_share_section(struct space *from, struct space *to, u32 section);
u32 fass_regions_domains(struct space *space);
u32 fass_region_domain(struct space *space, u32 section);
void fass_region_left(struct space *space, u32 section);
void fass_regions_leave(struct space *space, u32 regions);
void fass_region_loses_domain(struct region *region, u32 domain);

#endif
