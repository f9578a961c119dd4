// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Stands in for the NVIDIA driver where that cannot be: it has the tracepoints by
 * which the driver reports faults, and writes the lines that it writes. What is to be
 * reported is written to /sys/kernel/debug/xid: "BUS CODE MESSAGE", or behind an "s" for
 * that of a switch.
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

static ssize_t report(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	char *text, *msg, bus[32];
	int off = 0, is_switch;
	unsigned int code;

	if (n > 2048)
		return -E2BIG;
	text = memdup_user_nul(from, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	is_switch = text[0] == 's';
	if (sscanf(text + is_switch, "%31s %u %n", bus, &code, &off) < 2 || !off) {
		kfree(text);
		return -EINVAL;
	}
	msg = strim(text + is_switch + off);
	dev_set_name(&device->dev, "%s", bus);
	if (is_switch) {
		trace_nvswitch_dev_sxid(device, code, msg);
		printk(KERN_ERR "nvidia-nvswitch0: SXid (PCI:%s): %u, %s\n", bus, code, msg);
	} else {
		trace_nvidia_dev_xid(device, code, msg);
		/* without the function of the address */
		printk(KERN_ERR "NVRM: Xid (PCI:%.*s): %u, %s\n", (int)strcspn(bus, "."), bus, code,
		       msg);
	}
	kfree(text);
	return n;
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
