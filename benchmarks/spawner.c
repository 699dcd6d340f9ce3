/* For each byte on standard input: run argv[1] by posix_spawn with both output streams in pipes, drain them, reap it, and
   print the nanoseconds that took. */

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


extern char **environ;

static void pipe_or_die(int ends[2]) {
    if (pipe(ends)) exit(1);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
}

static void drain(struct pollfd ends[2]) {
    char buffer[65536];
    int open_ends = 2;
    while (open_ends) {
        if (poll(ends, 2, -1) < 0) exit(1);
        for (int i = 0; i < 2; i++) {
            if (ends[i].fd < 0 || !ends[i].revents) continue;
            if (read(ends[i].fd, buffer, sizeof buffer) > 0) continue;
            close(ends[i].fd);
            ends[i].fd = -1;
            open_ends--;
        }
    }
}

static void run(char *const argv[]) {
    int out[2], err[2], status;
    pid_t child;
    posix_spawn_file_actions_t actions;
    pipe_or_die(out);
    pipe_or_die(err);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    if (posix_spawn(&child, argv[0], &actions, NULL, argv, environ)) exit(1);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    struct pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    drain(ends);
    if (waitpid(child, &status, 0) != child || status) exit(1);
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    char byte;
    if (argc != 2) return 2;
    while (read(0, &byte, 1) == 1) {
        long long start = now();
        run(argv + 1);
        printf("%lld\n", now() - start);
        fflush(stdout);
    }
    return 0;
}
