// A process that makes code and says what it is in /tmp/perf-PID.map, a line at a time as
// it is told on its standard input: START and SIZE are offsets in its code.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	char path[64], line[256], name[128];
	unsigned long start, size;
	unsigned char *code = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(code, 0xc3, 1 << 16);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	printf("code %lx\n", (unsigned long)code);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		FILE *f = fopen(path, "a");

		if (sscanf(line, "%lx %lx %127[^\n]", &start, &size, name) == 3)
			fprintf(f, "%lx %lx %s\n", (unsigned long)code + start, size, name);
		fclose(f);
		printf("ok\n");
		fflush(stdout);
	}
	unlink(path);
	return 0;
}
