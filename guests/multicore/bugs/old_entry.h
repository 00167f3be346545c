/* Another core uses the page at VIEW, and once more when core 0 has changed what is mapped there. */
#include "../machine.h"

static volatile word mapped, changed, done;

static void use_again(void);

void other(word core)
{
    (void)core;
    use(VIEW);
    flag_raise(&mapped);
    flag_wait(&changed);
    use_again();
    flag_raise(&done);
}

/* On core 0. */
static void let_the_other_use_it_again(void)
{
    flag_raise(&changed);
    flag_wait(&done);
}
