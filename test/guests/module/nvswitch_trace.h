/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvswitch

#if !defined(NVSWITCH_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define NVSWITCH_TRACE_H

#include <linux/pci.h>
#include <linux/tracepoint.h>

/* Has the same arguments and the same record as the driver's tracepoint. */
TRACE_EVENT(
	nvswitch_dev_sxid, TP_PROTO(const struct pci_dev *pdev, u32 error_code, const char *msg),
	TP_ARGS(pdev, error_code, msg),
	TP_STRUCT__entry(__string(dev, pci_name(pdev)) __field(u32, error_code) __string(msg, msg)),
	TP_fast_assign(COPY_STRING(dev, pci_name(pdev)); COPY_STRING(msg, msg);
		       __entry->error_code = error_code;),
	TP_printk("SXid (PCI:%s): %u, %s", __get_str(dev), __entry->error_code, __get_str(msg)));

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE nvswitch_trace
#include <trace/define_trace.h>
