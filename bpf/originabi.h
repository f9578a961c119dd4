// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What crosses between the kernel and Go of where launches come from. */
#pragma once

/* Which of the two probes of a launch a row is. */
enum launch_layer {
	LAYER_NONE,
	LAYER_RUNTIME, /* each call that is not refused makes one launch of the driver */
	LAYER_DRIVER,
};

/* What is done about the return addresses of launches of the driver: set from user space. */
enum origins_use {
	ORIGINS_OFF,
	ORIGINS_LEARN, /* note which launch of the runtime each was made by */
	ORIGINS_DERIVE, /* where no probe sees that launch, count and record it all the same */
};
