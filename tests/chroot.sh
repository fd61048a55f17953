# shellcheck shell=bash disable=SC2154
# Debian systems of their own, made by debootstrap, for debian.sh and packages.sh. Must be root. To be
# sourced after core/packaging/setup.sh; `system` is the folder.

# make_system RELEASE: unless it is there.
make_system() {
  if [[ ! -d $system/usr ]]; then
    # shellcheck disable=SC2034
    local packages=(debootstrap)
    install_packages
    quietly debootstrap --variant=minbase "$1" "$system" http://deb.debian.org/debian
  fi
  cp /etc/resolv.conf "$system/etc/"
}

# copy_sources: those of HEAD, to /rowgrad there, and the texts to /data.
copy_sources() {
  rm -rf "$system/rowgrad" "$system/data"
  mkdir "$system/rowgrad" "$system/data"
  git -C "$root" archive HEAD | tar x -C "$system/rowgrad"
  if [[ ${ROWGRAD_DATA-} ]]; then cp "$ROWGRAD_DATA"/* "$system/data/"; fi
}

# inside COMMAND...: runs it there. What is mounted is so for the command alone, in a view of the file
# system of its own.
inside() {
  local texts=()
  [[ ! -d $system/data ]] || texts=(ROWGRAD_DATA=/data)
  # shellcheck disable=SC2016
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
    "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${CXX:+CXX="$CXX"} "${texts[@]}" "$@"
}
