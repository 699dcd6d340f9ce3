/* System calls through the 32-bit entry of x86-64: another table, which a filter may forget. Addresses lie below 4 GiB. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
static long low(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}
int main(int argc, char **argv) {
    char *m = mmap((void *)0x10000000, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (m == MAP_FAILED) return 1;
    if (!strcmp(argv[1], "getpid")) return low(20, 0, 0, 0) == getpid() ? puts("OK") : 1;
    if (!strcmp(argv[1], "unshare")) return low(310, 0x10000000, 0, 0) == 0 ? puts("OK") : 1;
    if (!strcmp(argv[1], "ptrace")) return low(26, 0, 0, 0) == 0 ? puts("OK") : 1;
    strcpy(m, argv[2]);
    if (!strcmp(argv[1], "creat")) return low(8, (long)m, 0644, 0) >= 0 ? puts("OK") : 1;
    unsigned char *a = (unsigned char *)m + 4096;
    long length = 16, s;
    char *text = m + 8192;
    strcpy(text, argv[3]);
    if (!strcmp(argv[1], "connect")) {
        int port = atoi(argv[2]);
        a[0] = 2; a[2] = port >> 8; a[3] = port & 255; a[4] = 127; a[7] = 1;
        s = low(359, 2, 1, 0);
    } else {
        a[0] = 1; strcpy((char *)a + 2, m); length = 3 + strlen(m);
        s = low(359, 1, 1, 0);
    }
    if (s < 0 || low(362, s, (long)a, length) < 0) return 1;
    return low(4, s, (long)text, strlen(text)) > 0 ? 0 : 1;
}
#else
int main(void) { return 1; }
#endif
