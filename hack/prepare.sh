#!/usr/bin/env bash
# Installs the Debian packages that the lab needs. If that is not permitted, it prints the missing packages.
set -euo pipefail
hosts=() services=() checks=()
[ -x /usr/lib/wine/wine64 ] || hosts+=(wine64)
command -v x86_64-w64-mingw32-gcc >/dev/null || hosts+=(gcc-mingw-w64-x86-64)
[ -x /usr/bin/docker-registry ] || services+=(docker-registry)
[ -x /usr/sbin/squid ] || services+=(squid)
[ -x /usr/bin/prometheus ] || services+=(prometheus)
[ -x /usr/sbin/smbd ] || services+=(samba)
[ -x /usr/sbin/sshd ] || services+=(openssh-server)
[ -x /usr/sbin/runc ] || hosts+=(runc)
[ -x /usr/sbin/nft ] || hosts+=(nftables)
command -v chromium >/dev/null || checks+=(chromium)
for program in skopeo openssl; do [ -x /usr/bin/$program ] || checks+=("$program"); done
command -v node >/dev/null || checks+=(nodejs)
command -v npm >/dev/null || checks+=(npm)
echo '#include <pthread.h>' | gcc -E - >/dev/null 2>&1 || checks+=(gcc libc6-dev)
[ $((${#hosts[@]} + ${#services[@]} + ${#checks[@]})) -eq 0 ] && exit 0
without="Without Wine and mingw, Windows hosts are simulated. Tests are skipped without the programs that they need: a registry, a proxy, Prometheus, runc (the
operator's pod), openssh-server (OpenSSH), samba (a CSI driver), nftables (Services), node and npm (the check of PowerShell), Chromium (the dashboard's page), skopeo (documents about mirrors) and gcc (the race detector)."
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not root, or no apt-get: cannot install ${hosts[*]} ${services[*]} ${checks[*]}. $without" >&2
  exit 0
fi
echo "Installing ${hosts[*]} ${services[*]} ${checks[*]} (about a minute)" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
policy=/usr/sbin/policy-rc.d
own_policy=
trap 'rm -f "$log" $own_policy' EXIT
# The lab and tests run registry, proxy, Prometheus, Samba and OpenSSH themselves, so Debian must not start them, now or at the next boot.
if [ ${#services[@]} -gt 0 ] && [ ! -e $policy ]; then
  own_policy=$policy
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
fi
apt-get update -q >"$log" 2>&1 || tail -5 "$log" >&2
for package in "${hosts[@]}" "${services[@]}" "${checks[@]}"; do
  apt-get install -qy --no-install-recommends "$package" >"$log" 2>&1 ||
    { tail -5 "$log" >&2; echo "apt-get could not install $package. $without" >&2; }
done
started=("${services[@]/openssh-server/ssh}")
for service in ${started[*]/samba/smbd nmbd samba-ad-dc}; do
  if command -v systemctl >/dev/null; then systemctl disable --quiet "$service" >"$log" 2>&1 || true; fi
done
