// SPDX-License-Identifier: GPL-2.0-only
/*
 * What measurements of TLB migration need of the kernel. A word written to
 * /proc/tlb_migration_test:
 *
 *   caches    cleans and invalidates this core's caches and the second level
 *   tlbs      invalidates all cores' TLBs
 *   others    invalidates those of the other cores, as work there would
 *   counters  lets users read the cycle counter, on every core
 *   skip N    of the migrations from now on that bring entries the Nth brings none;
 *             with 0 each does
 */
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/proc_fs.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/cacheflush.h>
#include <asm/tlb_migration.h>
#include <asm/tlbflush.h>

/* PMCR.E, PMCNTENSET.C, PMUSERENR.EN: ARM DDI 0406C, B4.1.117, B4.1.119, B4.1.124. */
static void open_counters(void *unused)
{
	asm volatile("mcr p15, 0, %0, c9, c12, 0" : : "r" (1));
	asm volatile("mcr p15, 0, %0, c9, c12, 1" : : "r" (1u << 31));
	asm volatile("mcr p15, 0, %0, c9, c14, 0" : : "r" (1));
	isb();
}

static void invalidate_here(void *unused)
{
	local_flush_tlb_all();
}

static ssize_t command(struct file *file, const char __user *from, size_t length,
		       loff_t *at)
{
	char word[16];
	int arrival;

	if (length >= sizeof(word))
		return -EINVAL;
	if (copy_from_user(word, from, length))
		return -EFAULT;
	word[length] = 0;
	if (sysfs_streq(word, "caches"))
		flush_cache_all();
	else if (sysfs_streq(word, "tlbs"))
		flush_tlb_all();
	else if (sysfs_streq(word, "others"))
		smp_call_function(invalidate_here, NULL, 1);
	else if (sysfs_streq(word, "counters"))
		on_each_cpu(open_counters, NULL, 1);
	else if (str_has_prefix(word, "skip ") && !kstrtoint(word + strlen("skip "), 10, &arrival))
		tlb_migration_skip(arrival);
	else
		return -EINVAL;
	return length;
}

static const struct proc_ops operations = {
	.proc_write	= command,
	.proc_lseek	= noop_llseek,
};

static int __init tlb_migration_test_init(void)
{
	proc_create("tlb_migration_test", 0200, NULL, &operations);
	return 0;
}
late_initcall(tlb_migration_test_init);
