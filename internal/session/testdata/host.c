// A workload that reports its own host activity: each mode waits for a line on standard input,
// works, prints its own measurements, and waits for end of input.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void ready(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static void done(void)
{
	fflush(stdout);
	while (getchar() != EOF)
		;
}

// disk FILE N: writes and reads N blocks of 256 KiB with direct I/O.
static void disk(const char *path, int n)
{
	const int block = 256 << 10;
	long long write_ns = 0, read_ns = 0, t;
	char *buf;
	int fd;

	if (posix_memalign((void **)&buf, 4096, block))
		die("memory");
	memset(buf, 7, block);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < n; i++)
		if (pwrite(fd, buf, block, (off_t)i * block) != block)
			die("prepare");
	if (fsync(fd) || close(fd))
		die("fsync");
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0)
		die("O_DIRECT");
	ready();
	for (int i = 0; i < n; i++) {
		t = now();
		if (pwrite(fd, buf, block, (off_t)i * block) != block)
			die("write");
		write_ns += now() - t;
	}
	for (int i = 0; i < n; i++) {
		t = now();
		if (pread(fd, buf, block, (off_t)i * block) != block)
			die("read");
		read_ns += now() - t;
	}
	printf("write %d %lld\nread %d %lld\n", n, write_ns, n, read_ns);
	done();
}

// cache FILE: reads a file twice, so that its cgroup must reclaim pages.
static void cache(const char *path)
{
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		die(path);
	ready();
	for (int i = 0; i < 2; i++) {
		lseek(fd, 0, SEEK_SET);
		while (read(fd, buf, sizeof(buf)) > 0)
			;
	}
	puts("read");
	done();
}

// touch MB: uses more memory than the limit.
static void touch(int mb)
{
	ready();
	for (int i = 0; i < mb; i++) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED)
			die("mmap");
		memset(p, 1, 1 << 20);
	}
	puts("touched");
	done();
}

// spin MS: uses this much CPU time.
static void spin(int ms)
{
	struct timespec t = { 0 };

	ready();
	while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms)
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	puts("spun");
	done();
}

static int server;

static void *echo(void *arg)
{
	int fd = accept(server, NULL, NULL);
	char buf[64];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, n, 0) != n)
			break;
	return arg;
}

// tcp N PORT: connects to itself over lo, then sends N messages there and back.
static void tcp(int n, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port) };
	socklen_t len = sizeof(struct tcp_info);
	struct tcp_info info;
	long long t, connect_ns;
	int fd, one = 1;
	pthread_t thread;
	char buf[64] = "x";

	server = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ready(); // lo is up
	if (bind(server, (void *)&a, sizeof(a)) || listen(server, 1))
		die("listen");
	pthread_create(&thread, NULL, echo, NULL);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	t = now();
	if (connect(fd, (void *)&a, sizeof(a)))
		die("connect");
	connect_ns = now() - t;
	ready(); // packets are dropped from now on
	for (int i = 0; i < n; i++) {
		if (send(fd, buf, 50, 0) != 50)
			die("send");
		if (recv(fd, buf, 1, MSG_PEEK) != 1)
			die("peek");
		if (recv(fd, buf, 50, MSG_WAITALL) != 50)
			die("recv");
	}
	memset(&info, 0, sizeof(info));
	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	printf("connect 1 %lld\nretransmits %u 0\n", connect_ns, info.tcpi_total_retrans);
	done();
}

// turns sends n messages from a client to a server and back.
static void turns(int n, int client, int server)
{
	struct sockaddr_storage from;
	socklen_t len;
	char buf[64] = "x";

	for (int i = 0; i < n; i++) {
		len = sizeof(from);
		if (send(client, buf, 50, 0) != 50 ||
		    recvfrom(server, buf, 50, 0, (void *)&from, &len) != 50)
			die("ask");
		if (sendto(server, buf, 50, 0, len ? (void *)&from : NULL, len) != 50 ||
		    recv(client, buf, 50, 0) != 50)
			die("answer");
	}
}

// local connects to a UNIX socket of the process with a name of length len.
static void local(int n, int type, const char *name, size_t len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + len;
	int server = socket(AF_UNIX, type, 0), client = socket(AF_UNIX, type, 0);

	memcpy(a.sun_path, name, len);
	if (bind(server, (void *)&a, size) || listen(server, 1) ||
	    connect(client, (void *)&a, size))
		die("connect");
	turns(n, client, accept(server, NULL, NULL));
}

// sockets N DIR: sends N messages there and back over each kind of socket.
static void sockets(int n, const char *dir)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(5353) };
	struct sockaddr_un logs = { AF_UNIX, "log" };
	socklen_t len = sizeof(a);
	int fd, peer, pair[2];
	char buf[64] = "x";

	ready(); // lo is up
	if (chdir(dir))
		die(dir);
	peer = socket(AF_INET, SOCK_DGRAM, 0);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(peer, (void *)&a, len) || connect(fd, (void *)&a, len))
		die("bind");
	turns(n, fd, peer);
	if (getsockname(fd, (void *)&a, &len) || connect(peer, (void *)&a, len))
		die("connect");
	turns(n, fd, peer); // the server is connected, too
	local(n, SOCK_STREAM, "a.sock", sizeof("a.sock"));
	local(n, SOCK_SEQPACKET, "\0abcdefghijklmnopqrstuvwxyz0123456789", 37);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) // between a parent and its workers
		die("socketpair");
	turns(n, pair[0], pair[1]);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	peer = socket(AF_UNIX, SOCK_DGRAM, 0); // takes logs
	if (bind(peer, (void *)&logs, sizeof(logs)) || connect(fd, (void *)&logs, sizeof(logs)))
		die("log");
	for (int i = 0; i < n; i++)
		if (send(fd, buf, 50, 0) != 50 || recv(peer, buf, 50, 0) != 50)
			die("log");
	puts("done");
	done();
}

static int in(const char *dir, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		die(path);
	return fd;
}

// record locks ten bytes of a file without waiting. It returns whether another process has some locked.
static int record(int fd, int command, short type, off_t start)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 10 };

	if (!fcntl(fd, command, &l))
		return 0;
	if (errno != EAGAIN)
		die("fcntl");
	return 1;
}

static const char *const lock_files[] = { "a.lock", "b.lock", "the-lock-of-an-open-file" };

// hold DIR TYPE: locks files there. A reader has many locks, and a writer locks other bytes.
static void hold(const char *dir, int writes)
{
	if (!writes) {
		int fd = in(dir, lock_files[1]);

		for (int i = 0; i < 20; i++)
			record(fd, F_SETLK, F_RDLCK, 1000 * i);
	} else if (flock(in(dir, lock_files[0]), LOCK_EX | LOCK_NB) ||
		   record(in(dir, lock_files[1]), F_SETLK, F_WRLCK, 10) ||
		   record(in(dir, lock_files[2]), F_OFD_SETLK, F_WRLCK, 0)) {
		die("lock");
	}
	ready();
	done();
}

// try DIR N: is refused the locks of the writer N times, twice N times and N times, and gets others.
static void try(const char *dir, int n)
{
	int a = in(dir, lock_files[0]), b = in(dir, lock_files[1]), c = in(dir, lock_files[2]);

	ready();
	for (int i = 0; i < n; i++)
		if (!flock(a, LOCK_SH | LOCK_NB) || !record(b, F_SETLK, F_RDLCK, 5) ||
		    !record(b, F_SETLK, F_WRLCK, 12) || record(b, F_SETLK, F_RDLCK, 0) ||
		    record(b, F_SETLK, F_WRLCK, 20) || !record(c, F_SETLK, F_WRLCK, 9))
			die("another lock is held");
	puts("done");
	done();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "disk") && argc > 3)
		disk(argv[2], atoi(argv[3]));
	else if (!strcmp(mode, "cache") && argc > 2)
		cache(argv[2]);
	else if (!strcmp(mode, "touch") && argc > 2)
		touch(atoi(argv[2]));
	else if (!strcmp(mode, "spin") && argc > 2)
		spin(atoi(argv[2]));
	else if (!strcmp(mode, "tcp") && argc > 3)
		tcp(atoi(argv[2]), atoi(argv[3]));
	else if (!strcmp(mode, "sockets") && argc > 3)
		sockets(atoi(argv[2]), argv[3]);
	else if (!strcmp(mode, "hold") && argc > 3)
		hold(argv[2], !strcmp(argv[3], "write"));
	else if (!strcmp(mode, "try") && argc > 3)
		try(argv[2], atoi(argv[3]));
	else if (!strcmp(mode, "wait")) { // and blocks SIGUSR2
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		sigprocmask(SIG_BLOCK, &set, NULL);
		ready();
		done();
	} else
		return 2;
	return 0;
}
