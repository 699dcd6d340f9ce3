/* io_uring without a library: open and write, open and read, or connect and send, each by ring operations alone. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
static int ring; static struct io_uring_params p; static char *sq, *cq; static struct io_uring_sqe *sqes;
static int act(struct io_uring_sqe e) {
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask), at = *tail & mask;
    sqes[at] = e;
    ((unsigned *)(sq + p.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) return -1;
    unsigned *head = (unsigned *)(cq + p.cq_off.head);
    struct io_uring_cqe *c = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (*head & *(unsigned *)(cq + p.cq_off.ring_mask));
    int result = c->res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}
int main(int argc, char **argv) {
    ring = syscall(__NR_io_uring_setup, 4, &p);
    if (ring < 0) { perror("io_uring_setup"); return 1; }
    sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
    sqes = mmap(0, p.sq_entries * sizeof *sqes, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    struct io_uring_sqe e = {0};
    char buffer[200] = "changed by a ring";
    if (argv[1][0] == '-' && argv[1][1] != 'r') {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        strncpy(un.sun_path, argv[2], sizeof un.sun_path - 1);
        int internet = argv[1][1] == 'c';
        e.opcode = IORING_OP_SOCKET; e.fd = internet ? AF_INET : AF_UNIX; e.off = SOCK_STREAM;
        int s = act(e);
        if (s < 0) return 1;
        memset(&e, 0, sizeof e);
        e.opcode = IORING_OP_CONNECT; e.fd = s; e.addr = internet ? (unsigned long)&in : (unsigned long)&un; e.off = internet ? sizeof in : sizeof un;
        if (act(e) < 0) return 1;
        memset(&e, 0, sizeof e);
        e.opcode = IORING_OP_SEND; e.fd = s; e.addr = (unsigned long)argv[3]; e.len = strlen(argv[3]);
        return act(e) < 0;
    }
    int reading = argv[1][0] == '-';
    e.opcode = IORING_OP_OPENAT; e.fd = AT_FDCWD; e.addr = (unsigned long)argv[1 + reading]; e.open_flags = reading ? O_RDONLY : O_WRONLY;
    int f = act(e);
    if (f < 0) return 1;
    memset(&e, 0, sizeof e);
    e.opcode = reading ? IORING_OP_READ : IORING_OP_WRITE; e.fd = f; e.addr = (unsigned long)buffer; e.len = reading ? 199 : 17;
    int n = act(e);
    if (reading && n > 0) write(1, buffer, n);
    return n < 0;
}
