#pragma once

// Scopes that change the process. unchanged_process.cpp fails tests that leave the process changed.

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

namespace rowgrad::testing {

/// Base of the scopes below.
class Scope {
 public:
  Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

/// A scope with another current folder.
class CurrentFolder : Scope {
 public:
  explicit CurrentFolder(const std::filesystem::path& folder) {
    std::filesystem::current_path(folder);
  }
  ~CurrentFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

/// A scope with another environment variable, or without it if `value` is nullopt.
class EnvironmentVariable : Scope {
 public:
  EnvironmentVariable(std::string name, const std::optional<std::string>& value)
      : name_(std::move(name)) {
    if (const char* const before = std::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  ~EnvironmentVariable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_.c_str(), value->c_str(), 1) : ::unsetenv(name_.c_str());
  }

  std::string name_;
  std::optional<std::string> before_;
};

/// A scope with another umask.
class FileMask : Scope {
 public:
  explicit FileMask(mode_t mask) : before_(::umask(mask)) {}
  ~FileMask() { ::umask(before_); }

 private:
  mode_t before_;
};

/// A scope without the superuser's right to write to write-protected files.
class OrdinaryUser : Scope {
 public:
  OrdinaryUser() {
    if (before_ == 0 && ::seteuid(65534) != 0) throw std::runtime_error("cannot change the user");
  }
  ~OrdinaryUser() { EXPECT_EQ(::seteuid(before_), 0); }

 private:
  uid_t before_ = ::geteuid();
};

/// A scope with another soft resource limit. Exceeding RLIMIT_FSIZE is an error, not a signal.
class ResourceLimit : Scope {
 public:
  ResourceLimit(int resource, rlim_t limit) : resource_(resource) {
    ::getrlimit(which(), &before_);
    ignored_ = std::signal(SIGXFSZ, SIG_IGN);
    set(limit);
  }
  ~ResourceLimit() {
    set(before_.rlim_cur);
    std::signal(SIGXFSZ, ignored_);
  }

 private:
  __rlimit_resource which() const { return static_cast<__rlimit_resource>(resource_); }
  void set(rlim_t limit) const {
    const rlimit changed{limit, before_.rlim_max};
    if (::setrlimit(which(), &changed) != 0) throw std::runtime_error("cannot set a limit");
  }

  int resource_;
  rlimit before_{};
  void (*ignored_)(int) = nullptr;
};

/// A scope in which run_program() may replace signal handlers and the new-handler.
class Handlers : Scope {
 public:
  Handlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~Handlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
    std::set_new_handler(of_new_);
  }

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
  std::array<struct sigaction, kSignals.size()> before_{};
  std::new_handler of_new_ = std::get_new_handler();
};

}  // namespace rowgrad::testing
