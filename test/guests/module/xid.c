// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Replaces the NVIDIA driver where it cannot run: it has the tracepoints with which the driver
 * reports faults, and writes the same lines. Like the driver's kernel_rc.c and nv-report-err.c,
 * it first writes the line, with the MIG instance and the process, then fires the tracepoint,
 * with only the message and its newline. To report a fault, write to /sys/kernel/debug/xid:
 * "BUS|INSTANCE|CODE|PROCESS|MESSAGE". A leading "s" means a fault of a switch, whose details
 * are further messages, each after a "|". As in the driver, nothing else runs on the CPU
 * between a switch's fault and its details.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define COPY_STRING(to, from) __assign_str(to)
#else
#define COPY_STRING(to, from) __assign_str(to, from)
#endif

#define CREATE_TRACE_POINTS
#include "nvidia_trace.h"
#include "nvswitch_trace.h"

static struct dentry *trigger;
static struct pci_dev *device;

#define MESSAGES 4

static void say_switch(const char *bus, unsigned int code, char **msgs, int n)
{
	int i;

	preempt_disable();
	for (i = 0; i < n; i++) {
		printk(KERN_ERR "nvidia-nvswitch0: SXid (PCI:%s): %u, %s", bus, code, msgs[i]);
		trace_nvswitch_dev_sxid(device, code, msgs[i]);
	}
	preempt_enable();
}

static void say(const char *bus, const char *instance, unsigned int code, const char *who,
		const char *msg)
{
	/* the address without its function */
	printk(KERN_ERR "NVRM: Xid (PCI:%.*s%s%s): %u, %s%s%s", (int)strcspn(bus, "."), bus,
	       *instance ? " " : "", instance, code, who, *who ? ", " : "", msg);
	trace_nvidia_dev_xid(device, code, msg);
}

static ssize_t report(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	char *text, *rest, *bus, *instance, *number, *who, *msgs[MESSAGES];
	ssize_t done = -EINVAL;
	unsigned int code;
	int is_switch, i;

	if (n > 2048)
		return -E2BIG;
	text = memdup_user_nul(from, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	is_switch = text[0] == 's';
	rest = text + is_switch;
	bus = strsep(&rest, "|");
	instance = strsep(&rest, "|");
	number = strsep(&rest, "|");
	who = strsep(&rest, "|");
	for (i = 0; rest && i < MESSAGES; i++) {
		msgs[i] = kasprintf(GFP_KERNEL, "%s\n", strim(strsep(&rest, "|")));
		if (!msgs[i])
			break;
	}
	if (i > 0 && !rest && !kstrtouint(number, 10, &code)) {
		dev_set_name(&device->dev, "%s", bus);
		if (is_switch)
			say_switch(bus, code, msgs, i);
		else
			say(bus, instance, code, who, msgs[0]);
		done = n;
	}
	while (i > 0)
		kfree(msgs[--i]);
	kfree(text);
	return done;
}

static const struct file_operations operations = { .owner = THIS_MODULE, .write = report };

static int __init begin(void)
{
	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	trigger = debugfs_create_file("xid", 0200, NULL, NULL, &operations);
	return 0;
}

static void __exit end(void)
{
	debugfs_remove(trigger);
	kfree_const(device->dev.kobj.name);
	kfree(device);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("reports faults as the NVIDIA driver does");
