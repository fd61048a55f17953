# shellcheck shell=bash
# For scripts that build with sanitizers, which takes g++ twice as long; to be sourced after setup.sh.

# Whether a compiler has all of them, and libFuzzer, which may not be installed.
has_sanitizers() {
  printf 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$1" -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2>/dev/null
}

# find_clang: `compiler` is $CXX, if it is a clang that has them, the newest one that is here and has them, or one that
# is installed.
find_clang() {
  for compiler in ${CXX-} clang++ $(compgen -c clang++- | sort -Vru); do
    ! has_sanitizers "$compiler" || return 0
  done
  install_packages clang libclang-rt-dev llvm
  compiler=clang++
}
