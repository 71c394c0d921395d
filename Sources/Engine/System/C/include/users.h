// The user and the groups as which this process runs.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// A user, as the system's lists name it.
typedef struct {
  uint32_t user, group;
  char name[256], home[4096];
} linux_account;

/// Finds a user by name, or by number if `name` is NULL. Returns 1; 0 if there is no such user; -1 with errno.
int linux_find_user(const char *name, uint32_t number, linux_account *found);
/// Finds the number of a group. Returns as `linux_find_user` does.
int linux_find_group(const char *name, uint32_t *found);

/// Gives up root's rights in all threads: takes the account's user and group as the real, the effective and the saved
/// ones. If `is_in_lists` is set, the process gets the groups that list the user; otherwise it gets no further groups.
/// HOME, USER and LOGNAME follow. Returns 0, or -1 with errno if nothing has changed. If only a part has changed, or
/// root's rights could be regained, it ends the process with status 77.
int linux_become_user(const linux_account *account, int is_in_lists);
