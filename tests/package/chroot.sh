#!/usr/bin/env bash
# Tests the Debian packages in a new system made by debootstrap: installs them, runs the programs, builds other
# projects with the library, and checks that removal leaves nothing behind.
#   tests/package/chroot.sh RELEASE [FOLDER]
# RELEASE is e.g. bookworm. FOLDER has the packages. Without FOLDER, they are first built in a second new system.
# Must run as root.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../core/packaging/setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/../chroot.sh"

if (($# < 1 || $# > 2)) || ((EUID != 0)); then
  echo "usage, as root: tests/package/chroot.sh RELEASE [FOLDER of packages]" >&2
  exit 2
fi
source "$root/tests/support/expect.sh"
release=$1
made=${2-}

# package NAME: prints the path of a package's file in the system.
package() {
  local files=("$system/packages/$1"_*.deb)
  echo "${files[0]#"$system"}"
}

apt() { quietly inside apt-get --yes --no-install-recommends "$@"; }

if [[ ! $made ]]; then
  system=$scratch/builder
  make_system "$release"
  copy_sources
  inside /rowgrad/core/packaging/make.sh
  made=$scratch/made
  mkdir "$made"
  cp "$system"/rowgrad/build-packages/*.deb "$made/"
  rm -rf --one-file-system "$system"
fi

system=$scratch/user
make_system "$release"
apt update
# traces: lists the files of rowgrad in the system, by name and by the contents of its packages.
traces() {
  (cd "$system" && find . -xdev -iname '*rowgrad*' -not -path './packages*' -not -path './root/*' -not -path './var/log/*' | sort)
  for file in "$made"/*.deb; do dpkg-deb --fsys-tarfile "$file" | tar t; done | grep -v '/$' |
    while IFS= read -r path; do [[ ! -e $system/$path ]] || echo "$path"; done
}
[[ ! $(traces) ]] || fail "the new system already has files of rowgrad: $(traces)"
mkdir "$system/packages"
cp "$made"/*.deb "$system/packages/"

# --- The programs -------------------------------------------------------------------------------
apt install "$(package librowgrad0)" "$(package rowgrad-tools)"
ok inside dpkg --get-selections
! grep openmpi "$log" || fail "rowgrad-tools depends on MPI"
equal "$(inside dpkg -L rowgrad-tools | grep ^/usr/bin/)" /usr/bin/rowgrad
for subcommand in $(inside rowgrad --help | sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  ok inside rowgrad "$subcommand" --help
  says Usage:
  [[ -s $system/usr/share/man/man1/rowgrad-$subcommand.1.gz ]] || fail "rowgrad $subcommand has no manual page"
done
inside rowgrad --version
ok inside rowgrad train --stop-after 5 --sample-tokens 10
says 'Computing'
apt install "$(package rowgrad-mpi)" openmpi-bin
ok inside env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  mpirun --oversubscribe -n 2 rowgrad train --stop-after 5 --sample-tokens 0
says 'sent by each of 2 ranks'

# --- Other projects -------------------------------------------------------------------------------
apt install "$(package librowgrad-dev)" "$(package rowgrad-doc)" g++ cmake make pkg-config
for page in html/index.html README.md core/README.md CHANGELOG.md; do
  [[ -s $system/usr/share/doc/rowgrad/$page ]] || fail "rowgrad-doc lacks $page"
done
cp -r "$root/tests/package" "$system/root/consumer"
quietly inside cmake -S /root/consumer -B /root/found -DCMAKE_BUILD_TYPE=Debug
quietly inside make -C /root/found -j "$(nproc)" consumer_rowgrad consumer_rowgrad_double consumer_log
inside /root/found/consumer_rowgrad
inside /root/found/consumer_rowgrad_double
inside /root/found/consumer_log /root/run.log
for number in rowgrad rowgrad_double; do
  inside sh -c "g++ -std=c++20 /root/consumer/main.cpp \$(pkg-config --cflags --libs $number) -o /root/by_$number"
  inside "/root/by_$number"
done

# --- Removal ----------------------------------------------------------------------------------------
apt purge librowgrad0 librowgrad-dev rowgrad-tools rowgrad-mpi rowgrad-doc
rm -rf "$system/root/consumer" "$system/root/found"
[[ ! $(traces) ]] || fail "removal leaves files behind: $(traces)"
echo "Debian $release: the packages work, other projects can use them, and removal leaves nothing behind"
