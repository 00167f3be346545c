// TLB sharing (StrongARM paper, section 3.2): a section that several spaces have at the same address
// gets a domain of its own, which all of them enable. They then use the same TLB entries and the same
// lines, and going from one to the other collides with nothing.
#include "fass.h"

#include "../core/core.h"
#include "../maintenance.h"

struct region regions[REGIONS];

bool fass_share_section(struct space *from, struct space *to, u32 section)
{
	u32 i;
	for (i = 0; i < REGIONS; i++)
		if (from->fass.regions & 1u << i && regions[i].section == section)
			break;
	if (i == REGIONS)
		for (i = 0; i < REGIONS && regions[i].sharers; i++)
			;
	if (i == REGIONS)
		return false; // no region left: the pages are shared one by one
	struct region *region = &regions[i];
	if (!region->sharers) {
		fass_leave_section(from, section);
		*region = (struct region){ .section = section, .sharers = 1 };
		from->fass.regions |= 1u << i;
	}
	region->sharers++;
	to->fass.regions |= 1u << i;
	return true;
}

u32 fass_regions_domains(const struct space *space)
{
	u32 mask = 0;
	for (u32 i = 0; i < REGIONS && space->fass.regions >> i; i++)
		if (space->fass.regions & 1u << i && regions[i].domain)
			mask |= DOMAIN_CLIENT(regions[i].domain);
	return mask;
}

bool fass_has_region(const struct space *space, u32 section)
{
	for (u32 i = 0; i < REGIONS && space->fass.regions >> i; i++)
		if (space->fass.regions & 1u << i && regions[i].section == section)
			return true;
	return false;
}

// The domain of the region that the space has at this section, allocated if need be; 0 if there is no
// region.
u32 fass_region_domain(struct space *space, u32 section)
{
	for (u32 i = 0; i < REGIONS && space->fass.regions >> i; i++) {
		struct region *region = &regions[i];
		if (!(space->fass.regions & 1u << i) || region->section != section)
			continue;
		if (!region->domain) {
			region->domain = fass_allocate(space->fass.domain);
			fass_give(region->domain, region);
		}
		return region->domain;
	}
	return 0;
}

static void leave(struct space *space, u32 i)
{
	struct region *region = &regions[i];
	space->fass.regions &= ~(1u << i);
	if (region->domain) {
		MAINTENANCE(FASS_REGION_REVOKE, space_set_fast_switch(space, space->fast_switch & ~DOMAIN_CLIENT(region->domain)));
		cpu.active = 0;
	}
	if (--region->sharers == 0 && region->domain) {
		u32 domain = region->domain;
		region->domain = 0;
		fass_abandon(domain);
	}
}

// The space has another table at this section now.
void fass_region_left(struct space *space, u32 section)
{
	for (u32 i = 0; i < REGIONS && space->fass.regions >> i; i++)
		if (space->fass.regions & 1u << i && regions[i].section == section)
			leave(space, i);
}

u32 fass_leave_shared(struct space *space)
{
	for (u32 i = 0; i < REGIONS && space->fass.regions >> i; i++)
		if (space->fass.regions & 1u << i) {
			leave(space, i);
			return regions[i].section;
		}
	return 0;
}

void fass_region_loses_domain(struct region *region, u32 domain)
{
	u32 bit = 1u << (region - regions);
	region->domain = 0;
	for (u32 i = 0; i < SPACES; i++)
		if (spaces[i].id && spaces[i].fass.regions & bit)
			MAINTENANCE(FASS_REGION_REVOKE, space_set_fast_switch(&spaces[i], spaces[i].fast_switch & ~DOMAIN_CLIENT(domain)));
}
