// Files that rlhost writes. Every file that it makes comes from one function, so that no link, no pipe and no file that is already
// there can steer it.
#pragma once

#include <stdint.h>
#include <sys/types.h>

/// A name in an open directory, where a path ends once its last links have been followed.
typedef struct {
  int directory;  // -1: none; AT_FDCWD is never stored
  char name[256];
  /// The owner of the link that must not be followed; -1 if that is not the reason.
  int64_t stranger;
  /// The file that lies there, if one does.
  int exists, is_handle;
  mode_t mode;
  uid_t owner;
  gid_t group;
  dev_t device;
  ino_t number;
  /// All links on the way belong to the user: the file at their end may be replaced.
  int is_ours;
} linux_place;

/// Makes a file that did not exist: STEM ENDING, or STEM-2 ENDING and so on if that name is taken. Only its owner can read it, unless
/// `mode` says otherwise. Stores the name, which the caller frees. Returns a descriptor; -1 and errno.
int linux_make_file(int directory, const char *stem, const char *ending, mode_t mode, char **name);

/// Opens the file of a name, or makes it with mode 0600. Never follows a link. `flags` are those of open(2).
int linux_open_own(int directory, const char *name, int flags);

/// Finds where a path ends. Follows links in its last component that belong to the user or to root, and no others: EACCES, with the
/// link's owner in `stranger`. A link of /proc/self/fd is a handle: it is opened, not read. Returns -1 and errno; the directory is
/// open even then, or -1.
int linux_find_place(const char *path, linux_place *place);
void linux_leave_place(linux_place *place);

/// Begins to write the file that the user has named. A regular file is not touched: the descriptor is that of a temporary file beside
/// it, whose name is stored, and which `linux_put_in_place` renames. A device, a pipe or a handle is opened itself; then `temporary`
/// is NULL. A private mode (0600) is kept to; otherwise the new file gets mode and owner of the old one, or `mode` less the umask.
/// `follows`: 0 if rlhost has chosen the name; then whatever lies there, but a directory, is replaced itself.
int linux_begin_replacing(const char *path, mode_t mode, int follows, linux_place *place, char **temporary);
/// Returns 0; -1 and errno, and the temporary file is gone.
int linux_put_in_place(const linux_place *place, const char *temporary);
/// Removes the temporary file.
void linux_give_up_replacing(const linux_place *place, const char *temporary);

/// Opens the file that the user has named, to append to it. Makes it with `mode` less the umask if there is none. -1 and errno.
int linux_open_log(const char *path, mode_t mode, linux_place *place);
