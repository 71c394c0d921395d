#define _GNU_SOURCE
#include "descriptors.h"
#include "programs.h"

int linux_open_terminal(int rows, int columns, char *name, size_t size) {
  int master = linux_lift(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (master < 0) return -1;
  if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, size) ||
      linux_resize_terminal(master, rows, columns))
    return linux_give_up(master);
  return master;
}

int linux_open_slave(const char *name) { return linux_lift(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)); }

int linux_resize_terminal(int master, int rows, int columns) {
  struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
  return ioctl(master, TIOCSWINSZ, &size);
}
