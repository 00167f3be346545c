// Finds the core by its main ID.
#include "core.h"

static const struct core *const cores[] = { &core_strongarm, &core_xscale, &core_arm920t, &core_arm926 };
const struct core *core;

void core_find(void)
{
	u32 id;
	__asm__ volatile("mrc p15, 0, %0, c0, c0, 0" : "=r"(id));
	for (u32 i = 0; i < sizeof cores / sizeof *cores; i++)
		if ((id & cores[i]->id_mask) == cores[i]->id) {
			core = cores[i];
			return;
		}
	panic("unknown core", id);
}

// Sleeps until an interrupt is pending; the core wakes though interrupts are masked.
void core_idle(void)
{
	while (!interrupt_pending())
		core->wait();
}
