#!/bin/sh
# autopush @VERSION@ for Linux x86-64, glibc 2.35 or newer. It unpacks what follows this text into a
# cache folder, once, and goes on there. Under the name of another program it is that one: ln -s.
set -u
umask 077
hash=@HASH@
fail() { echo "${0##*/}: $1" >&2; exit 3; }

case $0 in /*) file=$0 ;; *) file=$PWD/$0 ;; esac
case ${0##*/} in autoendpoint|autokey|endpoint_diagnostic) program=${0##*/} ;; *) program=autopush ;; esac

if [ -n "${CACHE_DIRECTORY:-}" ]; then cache=${CACHE_DIRECTORY%%:*} # of a unit of systemd
elif [ "$(id -u)" = 0 ]; then cache=/var/cache/autopush # sudo may keep the HOME of another user
elif [ -n "${XDG_CACHE_HOME:-}" ]; then cache=$XDG_CACHE_HOME/autopush
else cache=${HOME:-}/.cache/autopush
fi
case $cache in /*) ;; *) fail "no folder to unpack into: set HOME or XDG_CACHE_HOME" ;; esac
bundle=$cache/$hash

# Whoever may write there decides what runs.
is_mine() { [ -d "$1" ] && [ -O "$1" ] && case $(stat -c %a "$1") in *[2367]?|*[2367]) false ;; esac; }

if [ -e "$cache" ] && ! is_mine "$cache"; then
  fail "$cache may be written by others: remove it, or set XDG_CACHE_HOME"
fi
if [ ! -e "$bundle" ]; then
  draft=$cache/.$hash.$$
  trap 'rm -rf "$draft"' EXIT
  trap 'exit 3' HUP INT TERM
  mkdir -p "$draft" 2>/dev/null && tail -n +@LINES@ "$file" 2>/dev/null | tar -xz -C "$draft" 2>/dev/null &&
    sync -f "$draft" || fail "cannot unpack 140 MB into $cache (tar, gzip, space and the right to write are needed)"
  # Another start may have been faster; then this one has no effect.
  mv -T "$draft" "$bundle" 2>/dev/null || [ -e "$bundle" ] || fail "cannot write $bundle"
  rm -rf "$draft"
  trap - EXIT HUP INT TERM
  running=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n')
  for old in "$cache"/* "$cache"/.[0-9a-f]*.[0-9]*; do # versions that do not run, drafts of killed starts
    [ "$old" = "$bundle" ] || [ -e "/proc/${old##*.}/cmdline" ] ||
      case $running in *"$old/"*) ;; *) rm -rf "$old" ;; esac
  done
fi
is_mine "$bundle" || fail "$bundle may be written by others: remove it"

# What an upgrade starts: the file as it is then.
export PROGRAM_OF_AUTOPUSH="$file"
exec "$bundle/bin/python3" -I "$bundle/bin/$program" "$@"
