// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Fixed-width types are the same on every architecture built for. */
#pragma once
#include <asm-generic/types.h>
