#!/usr/bin/env bash
# Checks of the tracked sources: formatting, spelling, paths of somebody's machine,
# includes against the order of the layers.
#
#   scripts/lint.sh            all of them
#   scripts/lint.sh format     formatting only
#   scripts/lint.sh fix        rewrite with clang-format
set -uo pipefail
cd "$(dirname "$0")/.."

git rev-parse --is-inside-work-tree >/dev/null 2>&1 || {
  echo "lint: not a git checkout, so there is no list of sources; skipped"
  exit 0
}
clang_format=$(command -v clang-format-22) || {
  echo "lint: clang-format-22 is missing; scripts/install-deps.sh installs it" >&2
  exit 1
}
failed=0
report() { printf 'lint: %-12s %s\n' "$1" "$2"; }

sources() { git ls-files '*.cpp' '*.h'; }

check_format() {
  local file lines wrong=0
  while read -r file; do
    lines=$("$clang_format" "$file" | diff "$file" - | grep -c '^[<>]')
    [ "$lines" -eq 0 ] && continue
    printf '%s: %s lines differ\n' "$file" "$lines"
    wrong=$((wrong + 1))
  done < <(sources)
  if [ "$wrong" -eq 0 ]; then
    report format "$(sources | wc -l) files as .clang-format says"
  else
    report format "$wrong files to format; 'make format' does it"
    failed=1
  fi
}

check_spelling() {
  command -v codespell >/dev/null || {
    report spelling "codespell is missing; scripts/install-deps.sh installs it"
    failed=1
    return
  }
  if git ls-files | grep -vE '\.(npy|png)$' | xargs -r codespell; then
    report spelling "no known slip"
  else
    report spelling "mend the words above, or add a word of the trade to .codespellrc"
    failed=1
  fi
}

check_paths() {
  local found
  found=$(git grep -nIE "(^|[^A-Za-z0-9_.\$}])/(home|root|work|mnt|srv|Users)/" -- . ':!*.npy')
  if [ -z "$found" ]; then
    report paths "no path of somebody's machine"
  else
    printf '%s\n' "$found"
    report paths "the lines above name a path of one machine"
    failed=1
  fi
}

check_layers() {
  if python3 scripts/check-layers.py; then
    report layers "each includes only what is below it"
  else
    report layers "the files above include a layer that is not below them"
    failed=1
  fi
}

case "${1:-all}" in
all) check_format; check_spelling; check_paths; check_layers ;;
format) check_format ;;
fix) sources | xargs -r "$clang_format" -i ;;
*) echo "usage: scripts/lint.sh [all|format|fix]" >&2; exit 1 ;;
esac
exit "$failed"
