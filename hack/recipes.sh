#!/bin/bash
# Applies recipes of docs/development.md in a copy of the last commit: the tests must pass with all changes of hack/recipes/<name>.patch,
# and fail without the changes of any one file, so that no step can be forgotten. Each patch begins with the title of its recipe, and has no
# golden files: the tests write them.
set -euo pipefail
cd "$(dirname "$0")/.."
temporary=$(mktemp -d)
copy=$temporary/checkout
trap 'git worktree remove --force "$copy"; rm -r "$temporary"' EXIT
git worktree add --quiet --detach "$copy"

# change applies all steps to the copy except those in the given files.
change() {
  git -C "$copy" reset --quiet --hard
  git -C "$copy" apply -C1 "${@/#/--exclude=}" "$PWD/$patch"
}

passes() {
  (cd "$copy" && { go test ./internal/shared/desired -update || true; } && go test ./internal/shared/desired ./payload/build) >"$temporary/log" 2>&1
}

for patch in hack/recipes/*.patch; do
  title=$(head -1 "$patch")
  steps=$(awk -v title="## $title" '/^## /{on = $0 == title} on' docs/development.md)
  files=$(git apply --numstat "$patch" | cut -f3)
  for file in $files; do
    if ! grep -qF -e "$file" -e "\`$(dirname "$file")\`" <<<"$steps"; then
      echo "docs/development.md: \"$title\" has no step for $file, which $patch changes"
      exit 1
    fi
  done
  change
  if ! passes; then
    cat "$temporary/log"
    echo "$patch: the tests fail after all steps"
    exit 1
  fi
  for file in $files; do
    change "$file"
    if passes; then
      echo "$patch: the tests pass without the change of $file"
      exit 1
    fi
  done
  echo "$title: applied; the tests detect each forgotten file"
done
