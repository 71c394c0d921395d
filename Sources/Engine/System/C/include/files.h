// Files that rlhost writes. One function makes all of them, so that an existing link, pipe or file cannot redirect what
// is written.
#pragma once

#include <stdint.h>
#include <sys/types.h>

/// The file at the end of a path, after the path's last links were followed: a name in an open directory.
typedef struct {
  int directory;  // -1 if none; never AT_FDCWD
  char name[256];
  /// The owner of a link that must not be followed; -1 if there is none.
  int64_t stranger;
  /// Whether a file with that name exists, and the file's identity.
  int exists, is_handle;
  mode_t mode;
  uid_t owner;
  gid_t group;
  dev_t device;
  ino_t number;
  /// Whether all followed links belong to the user. Only then the file at the end may be replaced.
  int is_ours;
} linux_place;

/// Makes a new file, STEM ENDING, or STEM-2 ENDING and so on if that name is taken. With `mode` 0600, only its owner
/// can read it. Stores the name, which the caller must free. Returns a descriptor; -1 and errno on failure.
int linux_make_file(int directory, const char *stem, const char *ending, mode_t mode, char **name);

/// Opens the file with this name, or makes it with mode 0600. Never follows a link. `flags` are those of open(2). -1
/// and errno on failure.
int linux_open_own(int directory, const char *name, int flags);

/// Finds the end of a path. Follows links in the last component that belong to the user or to root. For other links it
/// fails with EACCES, and `stranger` has the link's owner. A link of /proc/self/fd counts as a handle, which is opened
/// rather than read. Returns 0; -1 and errno on failure. Even after a failure the directory may be open, so always call
/// linux_leave_place.
int linux_find_place(const char *path, linux_place *place);
void linux_leave_place(linux_place *place);

/// Begins to write the file that the user has named. A regular file stays untouched for now: the function returns a
/// descriptor of a temporary file in the same directory, and stores its name, for linux_put_in_place. A device, a pipe
/// or a handle is opened itself, and `temporary` is NULL. With the private mode 0600 the file gets that mode. Otherwise
/// the new file gets the mode and owner of the old file; if there is no old file, it gets `mode` without the bits of
/// the umask. `follows` is 0 if rlhost has chosen the name: anything but a directory is then replaced itself. Unless
/// `waits` is set, fails with ENXIO if no program opens a pipe to read within two seconds.
int linux_begin_replacing(const char *path, mode_t mode, int follows, int waits, linux_place *place, char **temporary);
/// Renames the temporary file. Returns 0. On failure removes the temporary file, and returns -1 and errno.
int linux_put_in_place(const linux_place *place, const char *temporary);
/// Removes the temporary file.
void linux_give_up_replacing(const linux_place *place, const char *temporary);

/// Opens the file that the user has named, to append to it. If the file does not exist, makes it with `mode` without
/// the bits of the umask. -1 and errno on failure. `waits`: as above.
int linux_open_log(const char *path, mode_t mode, int waits, linux_place *place);
