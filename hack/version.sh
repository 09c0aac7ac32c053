#!/usr/bin/env bash
# Prints the semantic version of this commit, without v: that of its tag, as in 1.2.0; without any tag, 0.0.0 with the commit, as in
# 0.0.0-g1a2b3c4, or the previous tag with the commit, as in 1.2.0-5-g1a2b3c4. Uncommitted changes append -dirty.
set -euo pipefail
cd "$(dirname "$0")/.."
described=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null || true)
if [ -z "$described" ]; then
  described=v0.0.0-g$(git describe --always --dirty --exclude '*')
fi
echo "${described#v}"
