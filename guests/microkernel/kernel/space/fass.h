// Between fass.c and fass_shared.c.
#ifndef FASS_H
#define FASS_H

#include "space.h"

#define DOMAINS 16 // 0 is the kernel's

#define CPD DIRECTORY_PHYSICAL
#define FEW_SECTIONS 2
#define MORE_SECTIONS 24
#define REGIONS 32 // one bit each in space.fass.regions

struct region {
	u32 section;
	u32 sharers; // 0: free
	u32 domain;  // 0: none at present
};
extern struct region regions[];

struct domain {
	struct space *space;    // who has it,
	struct region *region;  // or which shared region
	bool zombie;            // or a destroyed space, whose lines may still be cached
	bool overflow;          // it owns more entries than fass_owned() finds
	unsigned short count;
	unsigned short few[FEW_SECTIONS]; // the first entries of the CPD that carry it
};
extern struct domain domains[];
extern u32 free_domains;

// fass.c
unsigned short *fass_owned(u32 domain, u32 i);
u32 fass_assign(struct thread *receiver);
u32 fass_allocate(u32 kept);
void fass_give(u32 domain, struct region *region);
void fass_abandon(u32 domain);
void fass_switch_again(void);
void fass_leave_section(struct space *space, u32 section);

// fass_shared.c; all of them find nothing when no section is shared.
bool fass_share_section(struct space *from, struct space *to, u32 section);
u32 fass_regions_domains(const struct space *space);
struct region *fass_region_at(const struct space *space, u32 section);
u32 fass_region_domain(struct space *space, u32 section);
void fass_region_left(struct space *space, u32 section);
u32 fass_leave_shared(struct space *space);
void fass_region_loses_domain(struct region *region, u32 domain);

#endif
