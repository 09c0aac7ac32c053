#!/usr/bin/env bash
# Builds the documents as a site into _site/, with Debian's mkdocs and theme.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v mkdocs >/dev/null || ! dpkg-query -W mkdocs-material >/dev/null 2>&1; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "make docs needs mkdocs and mkdocs-material: apt-get install mkdocs mkdocs-material" >&2
    exit 1
  fi
  echo "Installing mkdocs mkdocs-material (about a minute)" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null
  apt-get install -qy --no-install-recommends mkdocs mkdocs-material >/dev/null
fi
mkdocs build --strict --quiet
echo "wrote _site/index.html"
