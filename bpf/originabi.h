// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The interface between the kernel and Go for the origins of launches. */
#pragma once

/* Which of the two probes of a launch a row belongs to. */
enum launch_layer {
	LAYER_NONE,
	LAYER_RUNTIME, /* each successful call makes one driver launch */
	LAYER_DRIVER,
};

/* Use of the return addresses of driver launches: set from user space. */
enum origins_use {
	ORIGINS_OFF,
	ORIGINS_LEARN, /* learn which runtime launch made each */
	ORIGINS_DERIVE, /* count and record that launch where no probe sees it */
};
