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

/* The attributes that programs query; all others are 0. Indexes are CUdevice_attribute. */
static const int attributes[] = {
	[1] = MAX_BLOCK, /* threads per block; block dimensions; grid dimensions */
	[2] = 1024,
	[3] = 1024,
	[4] = 64,
	[5] = 2147483647,
	[6] = 65535,
	[7] = 65535,
	[8] = 49152, /* shared memory per block, constant memory, warp size */
	[9] = 65536,
	[10] = 32,
	[11] = 2147483647, /* maximum pitch of a copy */
	[12] = SM_REGISTERS,
	[13] = 1410000, /* clock rate, kHz */
	[14] = 512, /* texture alignment */
	[15] = 1,
	[16] = MULTIPROCESSORS,
	[19] = 1, /* host memory can be mapped */
	[31] = 1, /* concurrent kernels */
	[36] = 1215000, /* memory clock, kHz; bus width, bits */
	[37] = 5120,
	[38] = 41943040, /* bytes of L2 */
	[39] = MAX_THREADS,
	[40] = 3, /* copy engines */
	[41] = 1, /* unified addressing */
	[51] = 32, /* texture pitch alignment */
	[75] = 8, /* compute capability */
	[76] = 0,
	[78] = 1, /* stream priorities */
	[79] = 1, /* L1 cache of globals and of locals */
	[80] = 1,
	[81] = SM_SHARED,
	[82] = SM_REGISTERS,
	[83] = 1, /* managed memory */
	[87] = 2, /* single to double precision ratio */
	[89] = 1, /* concurrent managed access */
	[90] = 1, /* compute preemption */
	[91] = 1, /* registered memory has the host's addresses */
	[95] = 1, /* cooperative launches */
	[96] = 1,
	[97] = SHARED_OPTIN,
	[99] = 1, /* host memory can be registered */
	[102] = 1, /* virtual memory management */
	[106] = MAX_BLOCKS,
	[111] = RESERVED_SHARED,
	[115] = 1, /* memory pools */
};

CU(cuDeviceGetAttribute)(int *v, int attr, int dev)
{
	int err = device_check(dev);

	if (err)
		return err;
	if (!v || attr < 1)
		return ERR_INVALID_VALUE;
	if (attr == 33) /* PCI bus id */
		*v = 0x10 + (int)g.dev[dev].physical;
	else
		*v = attr < (int)ARRAY_SIZE(attributes) ? attributes[attr] : 0;
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

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Parses [domain:]bus:device[.function] in hexadecimal; all but the bus must be 0. */
CU(cuDeviceGetByPCIBusId)(int *dev, const char *text)
{
	u32 part[3] = { 0 }, n = 0;

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!dev || !text)
		return ERR_INVALID_VALUE;
	for (; *text && *text != '.'; text++) {
		if (*text == ':' && n < 2)
			n++;
		else if (hex_digit(*text) >= 0)
			part[n] = part[n] << 4 | (u32)hex_digit(*text);
		else
			return ERR_INVALID_VALUE;
	}
	if (!n || (*text && strcmp(text, ".0")))
		return ERR_INVALID_VALUE;
	for (int i = 0; i < g.device_count; i++)
		if (!part[n] && part[n - 1] == 0x10 + g.dev[i].physical && (n < 2 || !part[0])) {
			*dev = i;
			return OK;
		}
	return ERR_INVALID_DEVICE;
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

/* Parses a device's number, or its name: "GPU-" and a unique prefix of its UUID. The UUIDs
 * differ in their last byte. */
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
		return g.cfg.devices == 1 ? s : NULL; /* ambiguous without the last byte */
	for (int i = 0; i < 2; i++, s++) {
		if (!*s || !strchr(hex, *s))
			return NULL;
		*out = *out << 4 | (u32)(strchr(hex, *s) - hex);
	}
	return s;
}

/* CUDA_VISIBLE_DEVICES selects and orders devices. The first invalid entry ends the list;
 * a duplicate leaves no devices. Returns the number of devices. */
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
