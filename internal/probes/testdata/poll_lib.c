// SPDX-License-Identifier: Apache-2.0
/* Queries that return their argument; the runtime's calls the driver's. */
int cuEventQuery(long answer)
{
	__asm__ volatile("" ::: "memory");
	return answer;
}

int cudaEventQuery(long answer)
{
	int r = cuEventQuery(answer);

	__asm__ volatile("" ::: "memory");
	return r;
}
