/* A page is write-protected, with all that this needs, later unmapped, and used for something else before its entry is
 * invalidated. Another core uses the entry. */
#include "../machine.h"

static volatile word mapped, protected, again, given, done;

/* Without a DSB, which would end the change of the permissions. */
static void raise(volatile word *flag)
{
    data_barrier();
    *flag = 1;
}

static void await(volatile word *flag)
{
    while (!*flag)
        ;
    data_barrier();
}

void other(word core)
{
    (void)core;
    use(VIEW);
    raise(&mapped);
    await(&protected);
    use(VIEW);
    raise(&again);
    await(&given);
    use(VIEW);
    raise(&done);
}

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    await(&mapped);
    map_view(PAGE_A, READ_ONLY);
    tlb_entry(VIEW);
    complete();
    synchronise();
    raise(&protected);
    await(&again);
    unmap_view();
    CORRECT_OR_WRONG((void)0, put(PAGE_A, 7));
    raise(&given);
    await(&done);
    tlb_entry(VIEW);
    complete();
    synchronise();
}
