/* Runs N processes that wait for a signal: crowd N. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 0; i < n; i++) {
		int pid = fork();

		if (pid < 0) {
			perror("fork");
			kill(0, SIGKILL);
		}
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(0);
		}
	}
	puts("crowded");
	fflush(stdout);
	pause();
	return 0;
}
