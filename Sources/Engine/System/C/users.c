#define _GNU_SOURCE
#include "users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ending.h"

enum { NO_PERMISSION = 77, ROOM = 1 << 16, MOST_GROUPS = 65536 };

// Gets a user's entry, in a buffer of ROOM bytes: lists of users may be on servers, so the size of an entry is not
// known in advance.
static int find(const char *name, uint32_t number, struct passwd *entry, char *room, struct passwd **found) {
  const int error = name ? getpwnam_r(name, entry, room, ROOM, found) : getpwuid_r(number, entry, room, ROOM, found);
  // Some lists of users report one of these errors for an unknown name.
  return error == ENOENT || error == ESRCH || error == EBADF || error == EPERM ? 0 : error;
}

int linux_find_user(const char *name, uint32_t number, linux_account *account) {
  struct passwd entry, *found = NULL;
  char *room = malloc(ROOM);
  if (!room) return -1;
  const int error = find(name, number, &entry, room, &found);
  if (found) {
    account->user = found->pw_uid;
    account->group = found->pw_gid;
    snprintf(account->name, sizeof account->name, "%s", found->pw_name);
    snprintf(account->home, sizeof account->home, "%s", found->pw_dir);
  }
  free(room);
  errno = error;
  return found ? 1 : error ? -1 : 0;
}

int linux_find_group(const char *name, uint32_t *number) {
  struct group entry, *found = NULL;
  char *room = malloc(ROOM);
  if (!room) return -1;
  const int error = getgrnam_r(name, &entry, room, ROOM, &found);
  if (found) *number = found->gr_gid;
  free(room);
  errno = error;
  return found ? 1 : error && error != ENOENT && error != ESRCH ? -1 : 0;
}

// Returns the groups of a user, which the caller must free; NULL without memory.
static gid_t *groups_of(const linux_account *account, int is_in_lists, int *count) {
  int room = MOST_GROUPS;
  gid_t *groups = malloc((size_t)room * sizeof *groups);
  if (!groups) return NULL;
  if (is_in_lists && getgrouplist(account->name, account->group, groups, &room) < 0) {
    free(groups);
    errno = E2BIG;
    return NULL;
  }
  *count = is_in_lists ? room : 0;
  return groups;
}

// Returns whether a line of /proc/…/status, such as "Uid:", has this number four times.
static int has_four(const char *text, const char *line, uint32_t number) {
  const char *place = strstr(text, line);
  unsigned a, b, c, d;
  if (!place || sscanf(place + strlen(line), "%u %u %u %u", &a, &b, &c, &d) != 4) return 0;
  return a == number && b == number && c == number && d == number;
}

// Returns whether each thread belongs to this user, as far as /proc shows it.
static int is_in_all_threads(const linux_account *account) {
  DIR *threads = opendir("/proc/self/task");
  if (!threads) return 1;
  int is_in_all = 1;
  for (struct dirent *entry; (entry = readdir(threads));) {
    char path[300], text[4096];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;  // the thread has ended
    const ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0) continue;
    text[count] = 0;
    if (!has_four(text, "\nUid:", account->user) || !has_four(text, "\nGid:", account->group)) is_in_all = 0;
  }
  closedir(threads);
  return is_in_all;
}

static int has_given_root_up(const linux_account *account) {
  // The C library skips threads that are ending. Such a thread keeps the old user for a moment, but does not use its
  // rights any more.
  for (int tries = 0; !is_in_all_threads(account); tries++) {
    if (tries == 2000) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return setuid(0) != 0 && seteuid(0) != 0 && (account->group == 0 || (setgid(0) != 0 && setegid(0) != 0));
}

_Noreturn static void give_up(const char *why, int error) {
  dprintf(STDERR_FILENO, "rlhost: process.set_user: %s%s%s\n", why, error ? ": " : "", error ? strerror(error) : "");
  linux_end(NO_PERMISSION);
}

int linux_become_user(const linux_account *account, int is_in_lists) {
  int count = 0;
  gid_t *groups = groups_of(account, is_in_lists, &count);
  if (!groups) return -1;
  // glibc applies each of these three calls to all threads.
  const int is_changed = setgroups((size_t)count, groups) == 0;
  const int error = errno;
  free(groups);
  if (!is_changed) {
    errno = error;
    return -1;
  }
  if (setresgid(account->group, account->group, account->group) != 0) give_up("the group cannot be set", errno);
  if (setresuid(account->user, account->user, account->user) != 0) give_up("the user cannot be set", errno);
  if (!has_given_root_up(account)) give_up("root's rights could be regained", 0);
  char number[16];
  snprintf(number, sizeof number, "%u", (unsigned)account->user);
  const char *name = account->name[0] ? account->name : number;
  setenv("HOME", account->home[0] ? account->home : "/", 1);
  setenv("USER", name, 1);
  setenv("LOGNAME", name, 1);
  return 0;
}
