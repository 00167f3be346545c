// Every cache and TLB operation and every dirty-bit update of the kernel that keeps the hardware
// coherent, by the name that `mutant=` disables. ../mutants.py reads this list.
#ifndef MAINTENANCE_H
#define MAINTENANCE_H

#define MAINTENANCE_LIST(X) \
	/* memory.c, all schemes */ \
	X(PAGE_GONE_DATA, "a page is unmapped: its data lines") \
	X(PAGE_GONE_INSTRUCTIONS, "and its instruction lines") \
	X(PAGE_GONE_TRANSLATION, "and its translation") \
	X(PAGE_TIGHTENED_TRANSLATION, "a page became read-only or uncached: its translation") \
	X(PAGE_LOOSENED_TRANSLATION, "a page became writable: its translation") \
	X(PAGE_UNCACHED_DATA, "a page became uncached: its data lines") \
	X(PAGE_LINGERS_DATA, "a destroyed space's page that others still have: its data lines") \
	X(PAGE_COPIED_CLEAN, "a page will be copied from, or read at another address: its dirty lines") \
	X(SYNCHRONISE_CLEAN, "instructions were written: the data lines") \
	X(SYNCHRONISE_INSTRUCTIONS, "and the instruction lines") \
	X(CACHE_EPOCH, "all caches were flushed: no space counts as cached") \
	/* flush.c */ \
	X(FLUSH_DATA, "at every switch: data lines") \
	X(FLUSH_INSTRUCTIONS, "instruction lines") \
	X(FLUSH_TRANSLATIONS, "translations") \
	X(FLUSH_DATA_FAST_PATH, "the same in the fast path: data lines") \
	X(FLUSH_INSTRUCTIONS_FAST_PATH, "instruction lines") \
	X(FLUSH_TRANSLATIONS_FAST_PATH, "translations") \
	/* fass.c */ \
	X(FASS_COLLISION_DATA, "a collision with a dirty domain: data lines") \
	X(FASS_COLLISION_INSTRUCTIONS, "instruction lines") \
	X(FASS_COLLISION_TRANSLATIONS, "translations") \
	X(FASS_CLEAN_COLLISION_TRANSLATIONS, "a collision with a clean domain: translations") \
	X(FASS_RECYCLE_DATA, "a dirty domain is recycled: data lines") \
	X(FASS_RECYCLE_INSTRUCTIONS, "instruction lines") \
	X(FASS_RECYCLE_TRANSLATIONS, "translations") \
	X(FASS_CLEAN_RECYCLE_TRANSLATIONS, "a clean domain is recycled: translations") \
	X(FASS_EXHAUSTED_DATA, "memory ran out while frames of destroyed spaces wait: data lines") \
	X(FASS_EXHAUSTED_INSTRUCTIONS, "instruction lines") \
	X(FASS_EXHAUSTED_TRANSLATIONS, "translations") \
	X(FASS_RECYCLE_SLOTS, "the slots of a recycled domain are cleared") \
	X(FASS_RECYCLE_DACR, "its former owner's DACR is withdrawn") \
	X(FASS_DIRTY, "activation marks the domains dirty") \
	X(FASS_DIRTY_FAST_PATH, "the same in the fast path") \
	X(FASS_DIRTY_AGAIN, "the same for the space that continues after a flush") \
	X(FASS_CLEAN, "all was flushed: no domain is dirty") \
	X(FASS_REGION_REVOKE, "a region's domain is withdrawn from a sharer's DACR") \
	X(FASS_REGION_DATA, "a section is shared: its data lines so far") \
	X(FASS_REGION_INSTRUCTIONS, "its instruction lines") \
	X(FASS_REGION_TRANSLATIONS, "its translations") \
	X(FASS_REGION_SLOT, "its slot of the page directory") \
	X(FASS_ZOMBIE, "a destroyed space's domain stays taken while dirty") \
	/* fcse_guaranteed.c, fcse_best_effort.c */ \
	X(FCSE_TRANSLATIONS, "at every switch by the general path") \
	X(FCSE_TRANSLATIONS_FAST_PATH, "and by the fast path") \
	X(FCSE_REUSED_DATA, "a switch where lines could meet: data lines") \
	X(FCSE_REUSED_INSTRUCTIONS, "instruction lines") \
	X(FCSE_GROW_DATA, "a space grows past 32 MB: data lines") \
	X(FCSE_GROW_INSTRUCTIONS, "instruction lines") \
	X(FCSE_GROW_TRANSLATIONS, "translations") \
	X(FCSE_GUARANTEED_RAN, "a space runs: it counts as cached") \
	X(FCSE_RAN, "the same in best effort mode") \
	X(FCSE_RAN_AGAIN, "the same for the space that continues after a flush") \
	X(FCSE_DIRTY, "a PID's dirty bit") \
	X(FCSE_CLEAN, "all was flushed: no PID is dirty") \
	X(FCSE_LAST_USER, "a PID's last user") \
	X(FCSE_LAST_USER_FORGOTTEN, "cleared when the space is destroyed") \
	X(FCSE_WRITTEN_SHARED, "the count of written shared pages") \
	X(FCSE_PAGES_ABOVE, "the count of pages above 32 MB") \
	X(FCSE_FAST_FLUSHED, "a space leaves the fast path: the caches were flushed") \
	X(FCSE_FAST_COUNTED, "one of the two counts changed")

#define MAINTENANCE_NUMBER(name, meaning) name,
#define MAINTENANCE_NAME(name, meaning) #name,
enum maintenance { NOTHING, MAINTENANCE_LIST(MAINTENANCE_NUMBER) MAINTENANCES };

#endif
