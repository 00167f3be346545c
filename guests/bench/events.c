#include "bench.h"
u32 events(void) { return 0; }
u32 isolation(void) { return 0; }
u32 recycled(void) { return 0; }
