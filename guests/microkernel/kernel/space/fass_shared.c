// TLB sharing (StrongARM paper, section 3.2): a section that several spaces have at the same address
// gets a domain of its own, which all of them enable. They then use the same TLB entries and the same
// lines, and going from one to the other collides with nothing.
#include "fass.h"

#include "../core/core.h"
#include "../maintenance.h"

struct region regions[REGIONS];

static u32 bit(const struct region *region)
{
	return 1u << (region - regions);
}

// The region that the space has at this section, or 0.
struct region *fass_region_at(const struct space *space, u32 section)
{
	struct region *region = regions;
	for (u32 left = space->fass.regions; left; left >>= 1, region++)
		if (left & 1 && region->section == section)
			return region;
	return 0;
}

static struct region *free_region(void)
{
	for (u32 i = 0; i < REGIONS; i++)
		if (!regions[i].sharers)
			return &regions[i];
	return 0;
}

bool fass_share_section(struct space *from, struct space *to, u32 section)
{
	struct region *region = fass_region_at(from, section);
	if (!region) {
		region = free_region();
		if (!region)
			return false; // the pages are shared one by one
		fass_leave_section(from, section);
		*region = (struct region){ .section = section, .sharers = 1 };
		from->fass.regions |= bit(region);
	}
	region->sharers++;
	to->fass.regions |= bit(region);
	return true;
}

u32 fass_regions_domains(const struct space *space)
{
	u32 mask = 0;
	const struct region *region = regions;
	for (u32 left = space->fass.regions; left; left >>= 1, region++)
		if (left & 1 && region->domain)
			mask |= DOMAIN_CLIENT(region->domain);
	return mask;
}

// The domain of the region that the space has at this section, allocated if need be; 0 if there is no
// region.
u32 fass_region_domain(struct space *space, u32 section)
{
	struct region *region = fass_region_at(space, section);
	if (!region)
		return 0;
	if (!region->domain) {
		region->domain = fass_allocate(space->fass.domain);
		fass_give(region->domain, region);
	}
	return region->domain;
}

static void leave(struct space *space, struct region *region)
{
	u32 domain = region->domain;
	space->fass.regions &= ~bit(region);
	if (domain) {
		MAINTENANCE(FASS_REGION_REVOKE, space_set_fast_switch(space, space->fast_switch & ~DOMAIN_CLIENT(domain)));
		fass_switch_again();
	}
	if (--region->sharers == 0 && domain)
		fass_abandon(domain);
}

// The space has another table at this section now.
void fass_region_left(struct space *space, u32 section)
{
	struct region *region = fass_region_at(space, section);
	if (region)
		leave(space, region);
}

u32 fass_leave_shared(struct space *space)
{
	struct region *region = regions;
	for (u32 left = space->fass.regions; left; left >>= 1, region++)
		if (left & 1) {
			leave(space, region);
			return region->section;
		}
	return 0;
}

void fass_region_loses_domain(struct region *region, u32 domain)
{
	region->domain = 0;
	for (u32 i = 0; i < SPACES; i++)
		if (spaces[i].fass.regions & bit(region))
			MAINTENANCE(FASS_REGION_REVOKE, space_set_fast_switch(&spaces[i], spaces[i].fast_switch & ~DOMAIN_CLIENT(domain)));
}
