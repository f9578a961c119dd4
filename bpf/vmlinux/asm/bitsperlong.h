// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once
#define __BITS_PER_LONG 64
#include <asm-generic/bitsperlong.h>
