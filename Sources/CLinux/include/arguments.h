// What this process was started with.
#pragma once

/// The words, the program's name first, with NULL at the end. From C's start-up code: /proc, where Swift looks for them, may not be there.
char **linux_arguments(void);
