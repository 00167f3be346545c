// Every cache and TLB operation and every dirty-bit update of the kernel that keeps the hardware
// coherent, by the number that `mutant=` disables. ../mutants.py reads this list.
#ifndef MAINTENANCE_H
#define MAINTENANCE_H

enum maintenance {
	NOTHING,
	// memory.c, all schemes
	PAGE_GONE_DATA,                    // a page is unmapped: its data lines
	PAGE_GONE_INSTRUCTIONS,            // and its instruction lines
	PAGE_GONE_TRANSLATION,             // and its translation
	PAGE_TIGHTENED_TRANSLATION,        // a page became read-only or uncached: its translation
	PAGE_LOOSENED_TRANSLATION,         // a page became writable: its translation
	PAGE_UNCACHED_DATA,                // a page became uncached: its data lines
	PAGE_COPIED_CLEAN,                 // a page will be copied from, or read at another address: its dirty lines
	SYNCHRONISE_CLEAN,                 // instructions were written: the data lines
	SYNCHRONISE_INSTRUCTIONS,          // and the instruction lines
	CACHE_EPOCH,                       // all caches were flushed: no space counts as cached
	// flush.c
	FLUSH_DATA,                        // at every switch: data lines
	FLUSH_INSTRUCTIONS,                // instruction lines
	FLUSH_TRANSLATIONS,                // translations
	FLUSH_RAN,                         // a space runs: it counts as cached
	// fass.c
	FASS_COLLISION_DATA,               // a collision with a dirty domain: data lines
	FASS_COLLISION_INSTRUCTIONS,       // instruction lines
	FASS_COLLISION_TRANSLATIONS,       // translations
	FASS_CLEAN_COLLISION_TRANSLATIONS, // a collision with a clean domain: translations
	FASS_RECYCLE_DATA,                 // a dirty domain is recycled: data lines
	FASS_RECYCLE_INSTRUCTIONS,         // instruction lines
	FASS_RECYCLE_TRANSLATIONS,         // translations
	FASS_CLEAN_RECYCLE_TRANSLATIONS,   // a clean domain is recycled: translations
	FASS_EXHAUSTED_DATA,               // memory ran out while frames of destroyed spaces wait: data lines
	FASS_EXHAUSTED_INSTRUCTIONS,       // instruction lines
	FASS_EXHAUSTED_TRANSLATIONS,       // translations
	FASS_RECYCLE_SLOTS,                // the slots of a recycled domain are cleared
	FASS_RECYCLE_TAG,                  // its former owner's DACR is withdrawn
	FASS_DIRTY,                        // activation marks the domains dirty
	FASS_DIRTY_FAST_PATH,              // the same in the fast path
	FASS_DIRTY_AGAIN,                  // the same for the space that goes on after a flush
	FASS_CLEAN,                        // all was flushed: no domain is dirty
	FASS_REGION_REVOKE,                // a region's domain is withdrawn from a sharer's DACR
	FASS_ZOMBIE,                       // a destroyed space's domain stays taken while dirty
	// fcse_guaranteed.c, fcse_best_effort.c
	FCSE_TRANSLATIONS,                 // at every switch by the general path
	FCSE_TRANSLATIONS_FAST_PATH,       // and by the fast path
	FCSE_REUSED_DATA,                  // a switch where lines could meet: data lines
	FCSE_REUSED_INSTRUCTIONS,          // instruction lines
	FCSE_GROW_DATA,                    // a space moves to slot 0: data lines
	FCSE_GROW_INSTRUCTIONS,            // instruction lines
	FCSE_GROW_TRANSLATIONS,            // translations
	FCSE_GUARANTEED_RAN,               // a space runs: it counts as cached
	FCSE_RAN,                          // the same in best effort mode
	FCSE_RAN_AGAIN,                    // the same for the space that goes on after a flush
	FCSE_DIRTY,                        // a PID's dirty bit
	FCSE_CLEAN,                        // all was flushed: no PID is dirty
	FCSE_LAST_USER,                    // a PID's last user
	FCSE_LAST_USER_FORGOTTEN,          // cleared when the space is destroyed
	FCSE_WRITTEN_SHARED,               // the count of written shared pages
	FCSE_PAGES_ABOVE,                  // the count of pages above 32 MB
	FCSE_TAG_FLUSHED,                  // a space leaves the fast path: the caches were flushed
	FCSE_TAG_COUNTED,                  // one of the two counts changed
	MAINTENANCES
};

#endif
