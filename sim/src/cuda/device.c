/* SPDX-License-Identifier: Apache-2.0 */
/* Devices. */
#include "gpu.h"

CU(cuDriverGetVersion)(int *v)
{
	if (!v)
		return ERR_INVALID_VALUE;
	*v = DRIVER_VERSION;
	return OK;
}

int device_check(int dev)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	return dev >= 0 && dev < g.device_count ? OK : ERR_INVALID_DEVICE;
}

CU(cuDeviceGetCount)(int *n)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!n)
		return ERR_INVALID_VALUE;
	*n = g.device_count;
	return OK;
}

CU(cuDeviceGet)(int *dev, int ordinal)
{
	int err = device_check(ordinal);

	if (!err && dev)
		*dev = ordinal;
	return err;
}

static void copy_text(char *dst, int len, const char *src)
{
	for (; len > 1 && *src; len--)
		*dst++ = *src++;
	if (len > 0)
		*dst = 0;
}

CU(cuDeviceGetName)(char *name, int len, int dev)
{
	int err = device_check(dev);

	if (!err)
		copy_text(name, len, "Simulated GPU");
	return err;
}

/* The attributes that programs ask for; others are 0. Numbers as in CUdevice_attribute. */
CU(cuDeviceGetAttribute)(int *v, int attr, int dev)
{
	static const int values[] = {
		[1] = 1024,   [2] = 1024,     [3] = 1024,  [4] = 64,        [5] = 2147483647,
		[6] = 65535,  [7] = 65535,    [8] = 49152, [9] = 65536,     [10] = 32,
		[12] = 65536, [13] = 1410000, [15] = 1,    [16] = 108,      [19] = 1,
		[31] = 1,     [36] = 1215000, [37] = 5120, [38] = 41943040, [39] = 2048,
		[40] = 3,     [41] = 1,       [75] = 8,    [76] = 0,        [81] = 167936,
		[82] = 65536, [83] = 1,       [89] = 1,    [90] = 1,        [95] = 1,
		[96] = 1,     [115] = 1,
	};
	int err = device_check(dev);

	if (err)
		return err;
	if (!v || attr < 1)
		return ERR_INVALID_VALUE;
	if (attr == 33) /* PCI bus */
		*v = 0x10 + (int)g.dev[dev].physical;
	else
		*v = attr < (int)ARRAY_SIZE(values) ? values[attr] : 0;
	return OK;
}

CU(cuDeviceTotalMem_v2)(size_t *n, int dev)
{
	int err = device_check(dev);

	if (!err)
		*n = g.cfg.mem;
	return err;
}

CU(cuDeviceTotalMem)(u32 *n, int dev)
{
	int err = device_check(dev);

	if (!err)
		*n = g.cfg.mem > ~0u ? ~0u : (u32)g.cfg.mem;
	return err;
}

CU(cuDeviceGetUuid_v2)(u8 *uuid, int dev)
{
	int err = device_check(dev);

	for (int i = 0; !err && i < 16; i++)
		uuid[i] = (u8)(i == 15 ? g.dev[dev].physical : 0x51);
	return err;
}

CU(cuDeviceGetUuid)(u8 *uuid, int dev)
{
	return impl_cuDeviceGetUuid_v2(uuid, dev);
}

CU(cuDeviceGetPCIBusId)(char *text, int len, int dev)
{
	char id[] = "0000:10:00.0";
	int err = device_check(dev);

	if (err)
		return err;
	id[6] = "0123456789abcdef"[g.dev[dev].physical & 15];
	copy_text(text, len, id);
	return OK;
}

CU(cuDeviceComputeCapability)(int *major, int *minor, int dev)
{
	int err = device_check(dev);

	if (!err) {
		*major = 8;
		*minor = 0;
	}
	return err;
}

CU(cuDeviceCanAccessPeer)(int *can, int dev, int peer)
{
	int err = device_check(dev);

	if (!err)
		err = device_check(peer);
	if (!err)
		*can = dev != peer;
	return err;
}

static const char *number(const char *s, u32 *v)
{
	for (*v = 0; *s >= '0' && *s <= '9'; s++)
		*v = *v * 10 + (u32)(*s - '0');
	return s;
}

/* A device of the machine by its number, or by its name: "GPU-" and as much of its UUID
 * as tells it from the others. The UUIDs differ in their last byte. */
static const char *one_device(const char *s, u32 *out)
{
	static const char uuid[] = "GPU-51515151-5151-5151-5151-5151515151";
	static const char hex[] = "0123456789abcdef";
	u32 n = 0;

	if (*s >= '0' && *s <= '9')
		return number(s, out);
	while (*s && *s != ',' && n < sizeof(uuid) - 1 && *s == uuid[n])
		s++, n++;
	*out = 0;
	if (n < 5)
		return NULL;
	if (!*s || *s == ',')
		return g.cfg.devices == 1 ? s : NULL; /* of several it tells none apart */
	for (int i = 0; i < 2; i++, s++) {
		if (!*s || !strchr(hex, *s))
			return NULL;
		*out = *out << 4 | (u32)(strchr(hex, *s) - hex);
	}
	return s;
}

/* CUDA_VISIBLE_DEVICES picks devices and orders them; the first that is none ends the
 * list, and one that comes twice leaves none. Returns how many there are. */
int devices_visible(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");
	u32 n = 0, seen = 0, dev;

	if (!s) {
		for (; n < g.cfg.devices; n++)
			g.dev[n].physical = n;
		return (int)n;
	}
	while (*s && n < MAX_DEVICES) {
		s = one_device(s, &dev);
		if (!s || (*s && *s != ',') || dev >= g.cfg.devices)
			break;
		if (seen & 1u << dev)
			return 0;
		seen |= 1u << dev;
		g.dev[n++].physical = dev;
		s += *s == ',';
	}
	return (int)n;
}
