#include <iostream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/process.hpp"
#include "tests/support/syncs.hpp"
#include "tests/test.hpp"

namespace {

namespace fs = std::filesystem;

// Returns an object that makes syncs of folders fail with `error` as long as it exists.
ReplacedSyncs failing_syncs_of_folders(int error) {
  return ReplacedSyncs([error](int file) {
    struct stat status {};
    if (::fstat(file, &status) != 0 || !S_ISDIR(status.st_mode)) return ReplacedSyncs::sync(file);
    errno = error;
    return -1;
  });
}

std::size_t entries(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

mode_t permissions(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(File, RoundTripsEveryByte) {
  const TemporaryFolder folder;
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  for (const std::string& contents :
       {std::string(), std::string("a"), every_byte, std::string(3'000'001, 'x')}) {
    write_file(folder / "file", contents);
    EXPECT_EQ(read_file(folder / "file"), contents);
    EXPECT_EQ(entries(folder), 1u);
  }
  write_file(folder / "file", std::vector<std::string_view>{"one", "", " and ", "two"});
  EXPECT_EQ(read_file(folder / "file"), "one and two");
  write_file(folder / "file", std::vector<std::string_view>{});
  EXPECT_EQ(read_file(folder / "file"), "");
}

// If a file got the descriptor 1, a program that was started without standard output would print
// into the file.
TEST(File, NeverUsesTheDescriptorsOfStandardStreams) {
  const TemporaryFolder folder;
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) {
    for (int number = 0; number <= 2; ++number) ::close(number);
    LockedFile existing(folder / "existing", LockedFile::Open::kOpenOrCreate);
    LockedFile made(folder / "made", LockedFile::Open::kCreateNew);
    made.publish();
    const InputFile read(folder / "made");
    write_file(folder / "whole", "whole");
    bool lost = true;
    for (int number = 0; number <= 2; ++number) lost = lost && ::write(number, "print", 5) < 0;
    ::_exit(lost && existing.size_bytes() == 0 && made.size_bytes() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(folder / "whole"), "whole");
}

TEST(File, AppearsWhenItIsPublished) {
  const TemporaryFolder folder;
  { const LockedFile given_up(folder / "file", LockedFile::Open::kCreateNew); }
  EXPECT_EQ(entries(folder), 0u);
  write_file(folder / "file.12-3.rowgrad.tmp", "left by a program that was killed");
  const std::set<std::string> others{"file.2024-11-25.tmp", "file.12-3.tmp",
                                     "file.mine.rowgrad.tmp", "file.12-3.rowgrad.tmp.txt",
                                     "other.12-3.rowgrad.tmp"};
  for (const std::string& other : others) write_file(folder / other, other);
  LockedFile made(folder / "file", LockedFile::Open::kCreateNew);
  LockedFile second(folder / "file", LockedFile::Open::kCreateNew);
  EXPECT_FALSE(fs::exists(folder / "file"));
  EXPECT_EQ(entries(folder), others.size() + 2);
  for (const std::string& other : others) EXPECT_EQ(read_file(folder / other), other);
  made.publish();
  EXPECT_TRUE(fs::exists(folder / "file"));
  EXPECT_ERROR_WITH(std::runtime_error, "File exists", second.publish());
  EXPECT_ERROR_WITH(std::runtime_error, "is already open",
                    LockedFile(folder / "file", LockedFile::Open::kOpenExisting));
}

TEST(File, ReplacesTheOldFileWhenItIsPublished) {
  const TemporaryFolder folder;
  {
    const FileMask mask(027);
    write_file(folder / "file", "old");
  }
  EXPECT_EQ(permissions(folder / "file"), 0640u);
  ASSERT_EQ(::chmod((folder / "file").c_str(), 0604), 0);
  fs::create_symlink("file", folder / "link");
  const auto contents = std::as_bytes(std::span("one two", 7));
  {
    LockedFile given_up(folder / "file", LockedFile::Open::kReplace);
    given_up.write(0, contents);
  }
  LockedFile first(folder / "link", LockedFile::Open::kReplace);
  LockedFile second(folder / "file", LockedFile::Open::kReplace);
  first.write(0, contents);
  EXPECT_EQ(read_file(folder / "file"), "old");
  first.publish();
  EXPECT_EQ(read_file(folder / "file"), "one two");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  second.write(0, contents.first(3));
  second.publish();
  EXPECT_EQ(read_file(folder / "file"), "one");
  EXPECT_EQ(permissions(folder / "file"), 0604u);
  EXPECT_EQ(entries(folder), 2u);
}

TEST(File, ReportsExistenceOrThrows) {
  const TemporaryFolder folder;
  EXPECT_TRUE(file_exists(folder.path()));
  EXPECT_FALSE(file_exists(folder / "none"));
  EXPECT_FALSE(file_exists(folder / "none/file"));
  EXPECT_ERROR_WITH(std::runtime_error, "File name too long",
                    file_exists(folder / std::string(300, 'n')));
}

TEST(File, ReadsPipesAndProcFiles) {
  EXPECT_HAS(read_file("/proc/self/status"), "Pid:");

  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string contents(20'000, 'p');  // less than the capacity of a pipe
  ASSERT_EQ(::write(ends[1], contents.data(), contents.size()),
            static_cast<ssize_t>(contents.size()));
  ::close(ends[1]);
  EXPECT_EQ(read_file("/proc/self/fd/" + std::to_string(ends[0])), contents);
  ::close(ends[0]);
}

TEST(File, CreatesTheTargetOfADanglingLink) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "runs");
  fs::create_symlink("runs/last", folder / "link");
  fs::create_symlink("today", folder / "runs/last");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "runs/last"));
  EXPECT_FALSE(fs::is_symlink(folder / "runs/today"));
  EXPECT_EQ(read_file(folder / "runs/today"), "new");

  fs::create_symlink("circle", folder / "circle");
  const std::string circle = folder / "circle";
  EXPECT_ERROR(std::runtime_error, "cannot write " + circle + ": Too many levels of symbolic links",
               write_file(circle, "x"));
  EXPECT_TRUE(fs::is_symlink(folder / "circle"));
}

TEST(File, ErrorsNameThePathAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing", in_the_way = folder / "folder";
  fs::create_directory(in_the_way);
  write_file(folder / "file", "");
  const auto read = [](const std::string& path) { read_file(path); };
  const auto open = [](const std::string& path) { InputFile file(path); };
  const auto write = [](const std::string& path) { write_file(path, "x"); };
  const auto replace = [](const std::string& path) {
    LockedFile file(path, LockedFile::Open::kReplace);
  };
  struct Refused {
    std::function<void(const std::string&)> call;
    std::string verb, path, reason;
  };
  for (const Refused& item :
       std::vector<Refused>{{read, "read", missing, "No such file or directory"},
                            {read, "read", in_the_way, "Is a directory"},
                            {open, "read", missing, "No such file or directory"},
                            {open, "read", in_the_way, "Is a directory"},
                            {open, "read", "/dev/null", "Illegal seek"},
                            {write, "write", folder / "missing/file", "No such file or directory"},
                            {write, "write", in_the_way, "Is a directory"},
                            {write, "write", folder / "file/file", "Not a directory"},
                            {write, "write", "", "No such file or directory"},
                            {replace, "write", in_the_way, "Is a directory"},
                            {replace, "write", "/dev/null", "Illegal seek"},
                            {write, "write", "/dev/full", "No space left on device"}})
    EXPECT_ERROR(std::runtime_error,
                 concat("cannot ", item.verb, ' ', item.path, ": ", item.reason),
                 item.call(item.path));
  write_file("/dev/null", "gone");  // writes to the device instead of replacing it
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(entries(folder), 2u);
}

// Simulates a full disk: files of this process cannot grow beyond 1,000 bytes.
TEST(File, KeepsTheOldFileIfTheDiskIsFull) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file(path, "old");
  const std::string error = error_of<std::runtime_error>([&] {
    const ResourceLimit limit(RLIMIT_FSIZE, 1000);
    write_file(path, std::string(5000, 'x'));
  });
  EXPECT_EQ(error, "cannot write " + path + ": File too large");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder), 1u);
}

TEST(File, IsWrittenOnlyOnceItsFolderIsSynced) {
  const TemporaryFolder folder;
  const std::vector<std::function<void()>> writes{
      [&] { write_file(folder / "file", "contents"); },
      [&] { LockedFile(folder / "new", LockedFile::Open::kCreateNew).publish(); },
      [&] { TableFile(folder / "table", TableFileOptions{.rows = 2, .width = 2}); }};
  const std::string failed = "cannot sync " + folder.path().string() + ": Input/output error";
  for (const int error : {EIO, EINVAL}) {  // EINVAL: the file system cannot sync folders
    for (const auto& write : writes) {
      const ReplacedSyncs failing = failing_syncs_of_folders(error);
      const std::string message = error_of<std::system_error>(write);
      EXPECT_EQ(message, error == EIO ? failed : "no error");
    }
    EXPECT_EQ(fs::exists(folder / "new"), error == EINVAL);
    EXPECT_EQ(fs::exists(folder / "table"), error == EINVAL);
  }
  EXPECT_EQ(entries(folder), 4u);  // the table has an undo file
}

TEST(SyncFolder, IgnoresOnlyUnsupportedOperations) {
  const TemporaryFolder folder;
  const auto error_of_sync = [&] {
    return error_of<std::system_error>([&] { sync_folder(folder.path()); });
  };
  for (const int error : {EIO, ENOSPC, EDQUOT, EACCES, EMFILE, EBADF, EINVAL, ENOSYS, EOPNOTSUPP}) {
    const ReplacedSyncs failing = failing_syncs_of_folders(error);
    const std::string message = error_of_sync();
    const bool unsupported = error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
    EXPECT_EQ(message, unsupported ? "no error"
                                   : concat("cannot sync ", folder.path().string(), ": ",
                                            std::generic_category().message(error)));
  }
  const ResourceLimit none(RLIMIT_NOFILE, 0);
  EXPECT_EQ(error_of_sync(),
            concat("cannot sync ", folder.path().string(), ": Too many open files"));
}

TEST(File, DoesNotReplaceAWriteProtectedFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const std::string error = error_of<std::runtime_error>([&] {
    const OrdinaryUser user;
    write_file(path, "new");
  });
  EXPECT_EQ(error, "cannot write " + path + ": Permission denied");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder), 1u);
}

TEST(InputFile, ReadsAtAnyOffset) {
  const TemporaryFolder folder;
  write_file(folder / "file", "0123456789");
  const InputFile file(folder / "file");
  EXPECT_EQ(file.size_bytes(), 10u);
  std::array<char, 3> bytes{};
  const auto read = [&](std::uint64_t offset) {
    file.read(offset, std::as_writable_bytes(std::span(bytes)));
    return std::string(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(read(7), "789");
  EXPECT_EQ(read(0), "012");
  EXPECT_ERROR(std::runtime_error, "cannot read " + file.path().string() + ": it ends at byte 10",
               read(8));
}

}  // namespace
