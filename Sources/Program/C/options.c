// The table of options, and the scripts with completions for shells.
#include <string.h>

#include "CProgram.h"

static const char options[] = {
#embed "shell/options"
    , '\0'};
static const char bash[] = {
#embed "shell/bash"
    , '\0'};
static const char zsh[] = {
#embed "shell/zsh"
    , '\0'};
static const char fish[] = {
#embed "shell/fish"
    , '\0'};

const char *program_options(void) { return options; }

const char *program_completions(const char *shell) {
  if (strcmp(shell, "bash") == 0) return bash;
  if (strcmp(shell, "zsh") == 0) return zsh;
  return strcmp(shell, "fish") == 0 ? fish : NULL;
}
