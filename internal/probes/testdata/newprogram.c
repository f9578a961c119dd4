// SPDX-License-Identifier: Apache-2.0
/*
 * A thread makes a call, then reads from a pipe. A child waits until the thread is blocked, writes to the pipe and
 * executes this program with an argument: that waits for a line. Waits for a line before the child is started.
 */
#include <stdio.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int cudaEventQuery(long answer);

/* Is a process's first thread blocked? */
static int blocked(int pid)
{
	char path[32], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
		_exit(1);
	fclose(f);
	return state == 'S';
}

static int say(const char *line)
{
	char answer[16];

	puts(line);
	fflush(stdout);
	return !fgets(answer, sizeof(answer), stdin);
}

int main(int argc, char **argv)
{
	int result[2], child, status;
	char c;

	if (argc > 1)
		return say("done");
	if (pipe(result) || say("ready"))
		return 1;
	cudaEventQuery(0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!blocked(getppid()))
			;
		if (write(result[1], "x", 1) == 1)
			execl(argv[0], argv[0], "again", NULL);
		_exit(1);
	}
	return read(result[0], &c, 1) != 1 || waitpid(child, &status, 0) != child || status;
}
