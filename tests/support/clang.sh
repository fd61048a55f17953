# shellcheck shell=bash
# Finds a clang for scripts that build with sanitizers, where g++ takes twice as long. Source it after setup.sh.

# has_sanitizers COMPILER: succeeds if the compiler has libFuzzer and all sanitizers, which may not be installed.
has_sanitizers() {
  printf 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$1" -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2>/dev/null
}

# find_clang: sets `compiler` to $CXX or the newest installed clang, if it has the sanitizers; otherwise installs clang.
find_clang() {
  for compiler in ${CXX-} clang++ $(compgen -c clang++- | sort -Vru); do
    ! has_sanitizers "$compiler" || return 0
  done
  install_packages clang libclang-rt-dev llvm
  compiler=clang++
}
