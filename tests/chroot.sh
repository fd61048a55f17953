# shellcheck shell=bash disable=SC2154
# Functions for debian.sh and package/chroot.sh, which run commands in a Debian system made by debootstrap. They
# need root. Source this file after core/packaging/setup.sh, and set `system` to the folder of the system.

# make_system RELEASE: creates the system, unless the folder has one.
make_system() {
  if [[ ! -d $system/usr ]]; then
    # shellcheck disable=SC2034
    local packages=(debootstrap)
    install_packages
    quietly debootstrap --variant=minbase "$1" "$system" http://deb.debian.org/debian
  fi
  cp /etc/resolv.conf "$system/etc/"
}

# copy_sources: copies the sources of HEAD to /rowgrad in the system, and the files of $ROWGRAD_DATA to /data.
copy_sources() {
  rm -rf "$system/rowgrad" "$system/data"
  mkdir "$system/rowgrad" "$system/data"
  git -C "$root" archive HEAD | tar x -C "$system/rowgrad"
  if [[ ${ROWGRAD_DATA-} ]]; then cp "$ROWGRAD_DATA"/* "$system/data/"; fi
}

# inside COMMAND...: runs the command in the system. Its mounts are in a private mount namespace.
inside() {
  local texts=()
  [[ ! -d $system/data ]] || texts=(ROWGRAD_DATA=/data)
  # shellcheck disable=SC2016
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
    "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${CXX:+CXX="$CXX"} "${texts[@]}" "$@"
}
