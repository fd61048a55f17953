// Simulates power cuts: data that was not synced is lost completely or partly.

#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/syncs.hpp"
#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"
#include <rowgrad/core/base/undo_journal.hpp>

namespace {

namespace fs = std::filesystem;

// The state of a folder on disk: names as of the last sync of the folder, contents as of the last
// sync of each file. Each sync, and cut_now(), records images of what the disk may hold at that
// time.
class Disk {
 public:
  using Image = std::map<std::string, std::string>;  // contents by name

  explicit Disk(fs::path folder) : folder_(std::move(folder)) {}

  const std::vector<Image>& images() const { return images_; }
  void forget_images() { images_.clear(); }

  // Returns the image of a disk that has lost all data that was not synced.
  Image synced() const {
    Image image;
    for (const auto& [name, file] : names_) image[name] = *file;
    return image;
  }

  // Records synced() and three images with some of the unsynced data: each sector of 512 bytes and
  // each length is old or new.
  void cut_now() {
    images_.push_back(synced());
    const std::map<std::string, Key> here = present();
    for (int i = 0; i < 3; ++i) {
      Image image;
      if (random_() % 2 == 0) {
        for (const auto& [name, key] : here) image[name] = mixed(*file_of(key), name);
      } else {
        for (const auto& [name, file] : names_) {
          const auto found = here.find(name);
          const bool is_here = found != here.end() && file_of(found->second) == file;
          image[name] = is_here ? mixed(*file, name) : *file;
        }
      }
      images_.push_back(image);
    }
  }

  static void write(const Image& image, const fs::path& folder) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const auto& [name, contents] : image) std::ofstream(folder / name) << contents;
  }

 private:
  static constexpr std::size_t kSector = 512;
  // The inode number and birth time of a file, because inode numbers of removed files are reused.
  using Key = std::pair<std::uint64_t, std::int64_t>;
  using File = std::shared_ptr<std::string>;  // contents at the last sync

  std::string mixed(const std::string& old, const std::string& name) {
    std::string now = old;
    try {
      now = read_file(folder_ / name);
    } catch (const std::system_error&) {  // another rank has renamed the file meanwhile
    }
    std::string result((random_() % 2 == 0 ? old : now).size(), '\0');
    for (std::size_t at = 0; at < result.size(); at += kSector) {
      const std::string& from = random_() % 2 == 0 ? old : now;
      const std::size_t size = std::min(kSector, result.size() - at);
      if (at < from.size()) std::ranges::copy(from.substr(at, size), result.data() + at);
    }
    return result;
  }

  static Key key_of(const fs::path& path) {
    struct statx status {};  // stays 0 if another rank has renamed the file
    ::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &status);
    return {status.stx_ino, status.stx_btime.tv_sec * 1'000'000'000LL + status.stx_btime.tv_nsec};
  }

  std::map<std::string, Key> present() const {
    std::map<std::string, Key> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names[entry.path().filename()] = key_of(entry.path());
    return names;
  }

  File file_of(const Key& key) {
    File& file = files_[key];
    if (!file) file = std::make_shared<std::string>();
    return file;
  }

  int sync(int descriptor) {
    const std::lock_guard lock(mutex_);
    const std::string link = concat("/proc/self/fd/", descriptor);
    const fs::path path = fs::read_symlink(link);
    if (path == folder_) {
      cut_now();
      names_.clear();
      for (const auto& [name, key] : present()) names_[name] = file_of(key);
    } else if (path.parent_path() == folder_) {
      cut_now();
      *file_of(key_of(link)) = read_file(link);
    }
    return 0;
  }

  fs::path folder_;
  std::mutex mutex_;
  std::mt19937 random_{5};
  std::map<Key, File> files_;
  std::map<std::string, File> names_;
  std::vector<Image> images_;
  const ReplacedSyncs syncs_{[this](int file) { return sync(file); }};
};

struct Change {
  std::string name;
  std::function<void()> make;
};

// Makes the changes one after another. If the power is cut during a change, `state` must return the
// state before or after the change. If the power is cut later, `state` must return the state after
// the change.
void expect_all_or_nothing(const fs::path& folder, const std::vector<Change>& changes,
                           const std::function<std::string(const fs::path&)>& state) {
  const TemporaryFolder elsewhere;
  const fs::path copy = elsewhere / "copy";
  const auto state_of = [&](const Disk::Image& image) {
    Disk::write(image, copy);
    try {
      return state(copy);
    } catch (const std::exception& error) {
      return std::string("failed: ") + error.what();
    }
  };
  Disk disk(folder);
  std::string before = state_of({});
  for (const Change& change : changes) {
    disk.forget_images();
    change.make();
    disk.cut_now();
    const std::string after = state(folder);
    EXPECT_NE(after, before) << change.name;
    EXPECT_EQ(state_of(disk.synced()), after) << change.name << " is not on the disk";
    std::size_t number = 0;
    for (const Disk::Image& image : disk.images()) {
      const std::string found = state_of(image);
      EXPECT_TRUE(found == before || found == after)
          << change.name << ", image " << number << " of " << disk.images().size() << ": " << found;
      ++number;
    }
    before = after;
  }
}

std::string contents_of(const fs::path& path) {
  return file_exists(path) ? read_file(path) : "nothing";
}

TEST(PowerCut, LeavesTheOldOrTheNewFile) {
  const TemporaryFolder folder;
  const fs::path path = folder / "run";
  expect_all_or_nothing(folder.path(),
                        {{"a new file", [&] { write_file(path, std::string(3000, 'a')); }},
                         {"a longer one", [&] { write_file(path, std::string(9000, 'b')); }},
                         {"a shorter one", [&] { write_file(path, std::string(700, 'c')); }}},
                        [](const fs::path& in) { return contents_of(in / "run"); });
}

TEST(PowerCut, LeavesTheOldOrTheNewRun) {
  const TemporaryFolder folder;
  const auto save = [&](real value) {
    StateDict state;
    state.put("weight", full({500}, value));
    write_safetensors(folder / "run", state);
  };
  expect_all_or_nothing(folder.path(), {{"first", [&] { save(1); }}, {"second", [&] { save(2); }}},
                        [](const fs::path& in) {
                          if (!file_exists(in / "run")) return std::string("nothing");
                          return bits_of(read_safetensors(in / "run"));
                        });
}

// The state of a table is its checkpoint id and all of its rows. Changes without a checkpoint leave
// the state of the last checkpoint.
TEST(PowerCut, LeavesATableAtACheckpoint) {
  const TemporaryFolder folder;
  std::unique_ptr<TableFile> table;
  std::string first;
  const auto set = [&](const Ids32& ids, real value) {
    const RecordWriter rows = table->modify(ids);
    for (const std::int32_t id : ids)
      std::fill_n(rows.content<real>(static_cast<std::size_t>(id)), table->width(), value);
  };
  const auto train = [&](real value) {
    for (std::int32_t i = 0; i < 20; ++i) set({i * 7 % 50, i * 11 % 60}, value + 1);
    set({1, 2, 40}, value);
    table->checkpoint();
  };
  const auto state = [&](const fs::path& in) {
    if (!file_exists(in / "table")) return std::string("nothing");
    // Copies the files, because the table is open.
    const TemporaryFolder copied;
    for (const auto& entry : fs::directory_iterator(in))
      fs::copy_file(entry.path(), copied / entry.path().filename());
    TableFile opened(copied / "table");
    EXPECT_EQ(opened.verify(), opened.stored_rows());
    std::string all = opened.checkpoint_id();
    std::vector<real> row(opened.width());
    for (std::int32_t id = 0; id < 60; ++id) {
      opened.read(static_cast<std::size_t>(id), row);
      all.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(real));
    }
    return all;
  };
  expect_all_or_nothing(folder.path(),
                        {{"creation",
                          [&] {
                            table = std::make_unique<TableFile>(
                                folder / "table",
                                TableFileOptions{.rows = 60, .width = 30, .slots = 1, .seed = 7});
                          }},
                         {"first checkpoint",
                          [&] {
                            train(1);
                            first = table->checkpoint_id();
                          }},
                         {"second checkpoint", [&] { train(2); }},
                         {"restore",
                          [&] {
                            set({5}, 9);
                            table->restore(first);
                          }},
                         {"another second checkpoint", [&] { train(3); }},
                         {"third checkpoint", [&] { train(4); }}},
                        state);
}

TEST(PowerCut, LeavesTheOldOrTheNewShardedCheckpoint) {
  const TemporaryFolder folder;
  const auto save = [&](real value) {
    run_ranks(2, [&](ProcessGroup& ranks) {
      Random random(1);
      ParallelTraining tables(ranks);
      const Embedding words(20, 4, random, EmbeddingOptions{.tables = &tables});
      StateDict state;
      state.put("weight", full({10, 4}, value + static_cast<real>(ranks.rank())));
      write_sharded_checkpoint(folder / "run", state, tables, words.parameters());
    });
  };
  const auto state = [](const fs::path& in) {
    if (!file_exists(in / "run")) return std::string("nothing");
    return bits_of(with_sharded_rows(read_safetensors(in / "run"), in / "run"));
  };
  expect_all_or_nothing(
      folder.path(),
      {{"first", [&] { save(1); }}, {"second", [&] { save(2); }}, {"third", [&] { save(3); }}},
      state);
}

// A journal must not contain groups of a journal that it replaced, even if both belong to the same
// checkpoint.
TEST(PowerCut, LeavesNoGroupsOfAReplacedJournal) {
  const TemporaryFolder folder;
  const fs::path path = folder / "journal";
  const std::vector<std::byte> record(48, std::byte{1});
  const UndoJournal::Header header{.id = 5, .record_bytes = record.size()};
  for (const std::size_t groups : {3, 1, 0}) {
    UndoJournal journal(path, header);
    EXPECT_TRUE(journal.empty());
    for (std::size_t i = 0; i < groups; ++i) {
      journal.add(i, record);
      journal.flush();
    }
  }
  const UndoJournal opened(path, {.id = 5, .record_bytes = record.size(), .bytes = 0});
  EXPECT_TRUE(opened.empty());
}

}  // namespace
