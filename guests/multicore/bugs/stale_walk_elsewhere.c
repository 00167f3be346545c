/* A page's entry is invalidated on the core that changes it alone. This core then walks by an old descriptor, which is
 * another mistake and hides nothing of what the other core does. */
#include "old_entry.h"

static void use_again(void) { use(VIEW); }

void first(void)
{
    map_view(PAGE_A, READ_WRITE);
    turn_on(1);
    flag_wait(&mapped);
    unmap_view();
    CORRECT_OR_WRONG(tlb_entry(VIEW), tlb_entry_here(VIEW));
    complete();
    synchronise();
    map_view(PAGE_B, READ_WRITE);
    CORRECT_OR_WRONG((void)0, put(PAGES_TABLE + (UNCACHED - 0x40000000), PAGE_B | SMALL_PAGE | NORMAL | READ_ONLY));
    complete();
    use(VIEW);
    let_the_other_use_it_again();
}
