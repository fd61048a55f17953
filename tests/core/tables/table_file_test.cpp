// Table files: stored rows, checkpoints, restoring, and damage.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/process.hpp"
#include "tests/test.hpp"
#include <rowgrad/core/base/hash.hpp>

namespace {

constexpr TableFileOptions kSmall{.rows = 1000, .width = 5, .slots = 1, .seed = 7};
constexpr std::size_t kSmallStride = (16 + 2 * 5 * sizeof(real) + 8 + 15) / 16 * 16;

class TableFiles : public ::testing::Test {
 protected:
  std::filesystem::path path(const std::string& name = "words.table") const {
    return folder_ / name;
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.insert(entry.path().filename().string());
    return names;
  }

  static std::vector<real> row(TableFile& table, std::int32_t id) {
    std::vector<real> values(table.width());
    table.read(static_cast<std::size_t>(id), values);
    return values;
  }

  static void set_rows(TableFile& table, const Ids32& ids, real value) {
    for (const std::int32_t id : ids)
      std::fill_n(table.modify(Ids32{id}).content<real>(static_cast<std::size_t>(id)),
                  table.width(), value);
  }

  // Sets rows, makes a checkpoint and returns its id.
  static std::string checkpoint_with(TableFile& table, const Ids32& ids, real value) {
    set_rows(table, ids, value);
    table.checkpoint();
    return table.checkpoint_id();
  }

  static void expect_row(TableFile& table, std::int32_t id, real value) {
    EXPECT_EQ(row(table, id), std::vector<real>(table.width(), value)) << "row " << id;
  }

  static void expect_as_drawn(TableFile& table, const Ids32& ids) {
    const TemporaryFolder elsewhere;
    TableFile fresh(elsewhere / "fresh", kSmall);
    for (const std::int32_t id : ids) EXPECT_EQ(row(table, id), row(fresh, id)) << "row " << id;
  }

  static std::vector<std::vector<real>> all_rows(TableFile& table) {
    std::vector<std::vector<real>> rows;
    for (std::size_t id = 0; id < table.rows(); ++id)
      rows.push_back(row(table, static_cast<std::int32_t>(id)));
    return rows;
  }

  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy_file(path(from), path(to),
                               std::filesystem::copy_options::overwrite_existing);
  }

  // Overwrites bytes in place, because a table may have the file open.
  void overwrite(const std::string& name, std::size_t offset, const std::string& bytes) const {
    std::fstream(path(name), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(offset))
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  // Flips the given bits of the byte at `offset`.
  void damage(const std::string& name, std::size_t offset, int bits) const {
    const char byte = static_cast<char>(read_file(path(name))[offset] ^ bits);
    overwrite(name, offset, std::string(1, byte));
  }

  // Opens the table, which must fail, and returns the error message.
  std::string open_error(const std::string& name = "words.table") const {
    return error_of<std::runtime_error>([&] { TableFile table(path(name)); });
  }

  TemporaryFolder folder_;
};

TEST_F(TableFiles, TakeSpaceOnlyForChangedRows) {
  TableFile table(path(), {.rows = 100'000'000, .width = 64, .slots = 2});
  EXPECT_EQ(std::filesystem::file_size(path()),
            4096 + 100'000'000ULL * ((16 + 3 * 64 * sizeof(real) + 8 + 15) / 16 * 16));
  Ids32 ids(5000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 19'997);
  table.fault_in(ids);
  row(table, 3);
  EXPECT_EQ(table.stored_rows(), 0);
  EXPECT_EQ(table.verify(), 0);
  set_rows(table, {99'999'999, 0}, 1);
  EXPECT_EQ(table.stored_rows(), 2);
  EXPECT_THROW(table.verify(), std::logic_error);
  table.checkpoint();
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 100'000);
  EXPECT_EQ(table.verify(), 2);  // skips the rows that are not stored
}

TEST_F(TableFiles, DrawRowsFromSeedAndIndex) {
  TableFile one(path("one"), {.rows = 3000, .width = 33, .seed = 5, .init_std = 0.5});
  TableFile two(path("two"), {.rows = 50, .width = 33, .seed = 5, .init_std = 0.5});
  TableFile other(path("other"), {.rows = 50, .width = 33, .seed = 6, .init_std = 0.5});
  EXPECT_EQ(row(one, 49), row(two, 49));
  EXPECT_EQ(row(one, 0), row(two, 0));
  EXPECT_NE(row(other, 0), row(two, 0));
  EXPECT_NE(row(one, 1), row(one, 0));
  TableFile of_past_version(path(), kSmall);
  const std::vector<double> expected{0.25697042, -1.1013233, -1.1092897, 0.14706524, 1.5867265};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(row(of_past_version, 3)[i], expected[i], 1e-6);
  double sum = 0, squares = 0;
  for (const std::vector<real>& values : all_rows(one))
    for (const real value : values) {
      sum += value;
      squares += value * value;
    }
  const double n = 3000 * 33;
  EXPECT_NEAR(sum / n, 0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 0.25, 5 * 0.25 * std::sqrt(2 / n));
}

TEST_F(TableFiles, RestoreTheLastTwoCheckpoints) {
  TableFile table(path(), kSmall);
  std::vector<std::string> checkpoints{table.checkpoint_id()};
  for (int step = 1; step <= 4; ++step) {
    set_rows(table, {0}, static_cast<real>(step));
    table.modify(Ids32{0}).note(0) = static_cast<std::uint64_t>(step);
    checkpoints.push_back(checkpoint_with(table, {step}, static_cast<real>(step)));
  }
  EXPECT_EQ(files(),
            (std::set<std::string>{"words.table", "words.table.undo-3", "words.table.undo-4"}));
  set_rows(table, {0}, 9);
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "cannot restore '" + checkpoints[2] + "', expected '" + checkpoints[4],
                    table.restore(checkpoints[2]));
  expect_row(table, 0, 9);

  table.restore(checkpoints[4]);
  expect_row(table, 0, 4);
  set_rows(table, {4}, 8);
  table.restore(checkpoints[3]);
  expect_row(table, 0, 3);
  EXPECT_EQ(table.step(0), 3);
  expect_row(table, 3, 3);
  expect_as_drawn(table, {4});
  EXPECT_EQ(files().count("words.table.undo-4"), 0);
}

TEST_F(TableFiles, ChangeOnlyRowsPreparedByModify) {
  TableFile table(path(), kSmall);
  const RecordWriter rows = table.modify(Ids32{1});
  EXPECT_ERROR_WITH(std::logic_error, "row 3 is not prepared for changes", rows.content<real>(3));
  EXPECT_EQ(table.stored_rows(), 1);
  expect_as_drawn(table, {1, 3});
  std::fill_n(rows.content<real>(1), table.width(), real{2});
  table.checkpoint();
  EXPECT_THROW(rows.content<real>(1), std::logic_error);
  EXPECT_EQ(table.verify(), 1);
  expect_row(table, 1, 2);
  expect_as_drawn(table, {3});
}

// Equal ids let the tables of all ranks load the state dict of one rank.
TEST_F(TableFiles, HaveEqualIdsAfterEqualChanges) {
  TableFile one(path("one"), kSmall), two(path("two"), kSmall);
  const std::string start = one.checkpoint_id();
  EXPECT_EQ(two.checkpoint_id(), start);
  const std::string checkpoint = checkpoint_with(one, {5}, 1);
  EXPECT_EQ(checkpoint_with(two, {5}, 1), checkpoint);
  two.restore(start);
  EXPECT_NE(checkpoint_with(two, {5}, 2), checkpoint);
  EXPECT_THROW(two.restore(checkpoint), std::invalid_argument);
  TableFile other(path("other"), {.rows = 1000, .width = 5, .slots = 1, .seed = 8});
  EXPECT_NE(other.checkpoint_id(), start);

  row(one, 1);
  one.checkpoint();  // keeps the id, because nothing has changed
  EXPECT_EQ(one.checkpoint_id(), checkpoint);
  set_rows(one, {1}, 2);
  EXPECT_ERROR_WITH(std::logic_error, "has changed since its last checkpoint", one.checkpoint_id());
  one.restore(checkpoint);
  one.set_deferred();
  EXPECT_THROW(one.checkpoint_id(), std::logic_error);
  one.restore(checkpoint);
  EXPECT_FALSE(one.has_deferred());
}

TEST_F(TableFiles, RejectDamagedOrTruncatedUndoFiles) {
  const std::string journal = "words.table.undo-0";
  {
    TableFile table(path(), kSmall);
    set_rows(table, {1, 2}, 1);
  }
  const auto size = std::filesystem::file_size(path(journal));
  copy(journal, "whole");
  for (const std::uintmax_t offset : {size - 3, size / 2, std::uintmax_t{30}}) {
    damage(journal, offset, 0x55);
    EXPECT_HAS(open_error(), "words.table.undo-0: is damaged") << offset;
    copy("whole", journal);
  }
  std::filesystem::resize_file(path(journal), size - 3);
  EXPECT_HAS(open_error(), "is damaged at byte");
  copy("whole", journal);
  TableFile table(path());
  EXPECT_EQ(table.stored_rows(), 0);
  expect_as_drawn(table, {1, 2});
}

TEST_F(TableFiles, KeepUndoFilesInTheFolderOfTheTable) {
  {
    const CurrentFolder here(folder_.path());
    std::filesystem::create_directory("elsewhere");
    auto table = std::make_unique<TableFile>("words.table", kSmall);
    const CurrentFolder elsewhere("elsewhere");
    checkpoint_with(*table, {1}, 1);
    table.reset();
  }
  std::filesystem::create_symlink(path(), path("elsewhere/link"));
  {
    TableFile table(path("elsewhere/link"));
    expect_row(table, 1, 1);
  }
  EXPECT_EQ(files(), (std::set<std::string>{"elsewhere", "words.table", "words.table.undo-0",
                                            "words.table.undo-1"}));
}

TEST_F(TableFiles, DoNotOverwriteOtherFilesWithUndoFiles) {
  for (const std::string mine : {"somebody's notes", "m", "mine!", "minemin"}) {
    { std::ofstream(path("words.table.undo-0")) << mine; }
    EXPECT_ERROR_WITH(std::runtime_error, "undo-0: is not an undo file, but has the name of one",
                      TableFile table(path(), kSmall));
    EXPECT_EQ(files(), std::set<std::string>{"words.table.undo-0"});
    EXPECT_EQ(read_file(path("words.table.undo-0")), mine);
  }
  // A machine that stops while an undo file is created can leave zeros.
  { std::ofstream(path("words.table.undo-0")) << std::string(288, '\0'); }
  TableFile table(path(), kSmall);
}

TEST_F(TableFiles, RemoveOnlyTheirOwnUndoFiles) {
  {
    TableFile table(path(), kSmall);
    for (const real step : {1, 2}) checkpoint_with(table, {1}, step);
  }
  copy("words.table.undo-1", "words.table.undo-0");  // as left by a killed program
  { TableFile table(path()); }
  EXPECT_EQ(files().count("words.table.undo-0"), 0);
  for (const char* name : {"words.table.undo-0", "words.table.undo-3"})
    std::ofstream(path(name)) << "somebody's notes";
  TableFile table(path());
  EXPECT_EQ(files().count("words.table.undo-0"), 1);
  EXPECT_ERROR_WITH(std::runtime_error, "undo-3: is not an undo file",
                    checkpoint_with(table, {1}, 3));
  std::filesystem::remove(path("words.table.undo-3"));
  table.checkpoint();
  expect_row(table, 1, 3);
}

// --- Damage -------------------------------------------------------------------------------------

TEST_F(TableFiles, DetectEveryDamagedByteAndMissingRows) {
  {
    TableFile table(path(), kSmall);
    checkpoint_with(table, {3, 4, 999}, 1);
    checkpoint_with(table, {4}, 2);
  }
  ASSERT_EQ(std::filesystem::file_size(path()), 4096 + 1000 * kSmallStride);
  std::mt19937 random(1);
  for (const std::int32_t id : {3, 4, 8, 999}) {
    // Row 8 is not stored, so only its first 16 bytes are verified.
    for (std::size_t i = 0; i < (id == 8 ? 16 : kSmallStride); ++i) {
      const std::size_t offset = 4096 + static_cast<std::size_t>(id) * kSmallStride + i;
      const int bits = 1 << random() % 8;
      damage("words.table", offset, bits);
      TableFile table(path());
      const std::string expected = concat("row ", id, " is damaged");
      EXPECT_ERROR_WITH(std::runtime_error, expected, row(table, id)) << i;
      EXPECT_THROW(set_rows(table, {id}, 7), std::runtime_error) << i;
      EXPECT_ERROR_WITH(std::runtime_error, concat("1 row is damaged, the first is row ", id),
                        table.verify())
          << i;
      EXPECT_NO_THROW(row(table, 5));
      damage("words.table", offset, bits);
    }
  }
  TableFile table(path());
  EXPECT_EQ(table.verify(), 3);
  overwrite("words.table", 4096 + 3 * kSmallStride, std::string(kSmallStride, '\0'));
  EXPECT_ERROR_WITH(std::runtime_error, "has 2 stored rows, expected 3", table.verify());
}

TEST_F(TableFiles, VerifyPrefetchedRowsWhenUsed) {
  const auto drop_pages = [&] {  // leaves rows on the disk only
    const int file = ::open(path().c_str(), O_RDONLY);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  };
  Ids32 ids(200);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 5);
  std::vector<std::vector<real>> expected;
  {
    TableFile table(path(), kSmall);
    for (const std::int32_t id : ids) set_rows(table, {id}, static_cast<real>(id));
    table.checkpoint();
    expected = all_rows(table);
  }
  for (const bool damaged : {false, true}) {
    if (damaged) damage("words.table", 4096 + 995 * kSmallStride + 17, 1);
    drop_pages();
    TableFile table(path());
    table.prefetch({});
    table.prefetch(ids);
    if (damaged) {
      EXPECT_ERROR_WITH(std::runtime_error, "row 995 is damaged", table.fault_in(ids));
    } else {
      EXPECT_EQ(all_rows(table), expected);
      table.prefetch(ids);  // rows that are in memory now
      EXPECT_EQ(all_rows(table), expected);
    }
  }
}

TEST_F(TableFiles, DetectSwappedRowsAndUndoFiles) {
  for (const std::string name : {"one", "two"}) {
    TableFile table(path(name), kSmall);
    checkpoint_with(table, {3, 4}, static_cast<real>(name[0]));
    set_rows(table, {name == "one" ? 1 : 2}, 5);
  }
  copy("one.undo-1", "of one");
  copy("two.undo-1", "one.undo-1");
  EXPECT_HAS(open_error("one"),
             "one.undo-1: is damaged, or is not the undo file of this checkpoint");
  copy("of one", "one.undo-1");
  for (const std::string name : {"one", "two"}) {
    TableFile table(path(name));  // goes back to the last checkpoint
    EXPECT_EQ(table.stored_rows(), 2);
  }
  const auto record = [&](const std::string& name, std::size_t id) {
    return read_file(path(name)).substr(4096 + id * kSmallStride, kSmallStride);
  };
  for (const std::string& other : {record("one", 4), record("two", 3)}) {
    for (const std::string journal : {"", ".undo-0", ".undo-1"})
      copy("one" + journal, "mixed" + journal);
    overwrite("mixed", 4096 + 3 * kSmallStride, other);
    TableFile mixed(path("mixed"));
    EXPECT_THROW(row(mixed, 3), std::runtime_error);
    EXPECT_NO_THROW(row(mixed, 4));
  }
}

// When the machine stops, the disk has an old or new header, the undo files, and any version of
// each sector of the rows since the checkpoint that the header names.
TEST_F(TableFiles, OpenAfterAMachineStopsAtAnyTime) {
  constexpr std::size_t kSector = 512;
  std::mt19937 random(3);
  const auto stop = [&](const std::string& head, const std::vector<std::string>& rows,
                        const std::string& expected_id,
                        const std::vector<std::vector<real>>& expected) {
    std::string disk = head.substr(0, 4096);
    for (std::size_t at = disk.size(); at < head.size(); at += kSector)
      disk += rows[random() % rows.size()].substr(at, kSector);
    write_file(path("stopped"), disk);
    for (const std::string journal : {".undo-0", ".undo-1", ".undo-2"})
      if (files().contains("words.table" + journal)) {
        copy("words.table" + journal, "stopped" + journal);
        std::ofstream(path("stopped" + journal), std::ios::app) << "the beginning of a group";
      }
    for (int again = 0; again < 2; ++again) {
      TableFile table(path("stopped"));
      EXPECT_EQ(table.checkpoint_id(), expected_id);
      EXPECT_EQ(all_rows(table), expected);
      EXPECT_EQ(table.verify(), table.stored_rows());
    }
  };
  for (int round = 0; round < 8; ++round) {
    for (const std::string& name : files()) std::filesystem::remove(path(name));
    TableFile table(path(), {.rows = 60, .width = 5, .slots = 1, .seed = 7});
    const auto change = [&](real value) {
      for (int i = 0; i < 12; ++i)
        set_rows(table, {static_cast<std::int32_t>(random() % 60)}, value);
    };
    change(1);
    table.checkpoint();
    const std::string checkpoint = table.checkpoint_id(), saved = read_file(path());
    const auto rows = all_rows(table);
    change(2);
    const std::string halfway = read_file(path());
    change(3);
    const std::string changed = read_file(path());
    const auto later_rows = all_rows(table);
    stop(round % 2 == 0 ? saved : changed, {saved, halfway, changed}, checkpoint, rows);
    table.checkpoint();
    const std::string later = read_file(path());
    // The machine stops while checksums are written, then when the next undo file exists but the
    // header is old, then after the header is written.
    stop(changed, {saved, halfway, changed, later}, checkpoint, rows);
    stop(saved, {later}, checkpoint, rows);
    stop(later, {later}, table.checkpoint_id(), later_rows);
  }
}

TEST_F(TableFiles, FailSafelyIfAnUndoFileIsDamaged) {
  TableFile table(path(), kSmall);
  const std::string checkpoint = checkpoint_with(table, {1}, 1);
  checkpoint_with(table, {1}, 2);
  set_rows(table, {1}, 3);
  damage("words.table.undo-1", 330, 1);
  EXPECT_THROW(table.check_restore(checkpoint), std::runtime_error);
  EXPECT_THROW(table.restore(checkpoint), std::runtime_error);
  expect_row(table, 1, 3);
  damage("words.table.undo-1", 330, 1);
  table.restore(checkpoint);
  expect_row(table, 1, 1);
  set_rows(table, {1}, 2);
  damage("words.table.undo-1", 330, 1);  // the undo file of the last checkpoint is in use
  EXPECT_THROW(table.restore(checkpoint), std::runtime_error);
  const std::string message = path().string() + ": writing the table failed; open it again";
  EXPECT_ERROR(std::logic_error, message, table.checkpoint());
  EXPECT_ERROR(std::logic_error, message, table.restore(checkpoint));
  EXPECT_ERROR(std::logic_error, message, table.check_restore(checkpoint));
  EXPECT_ERROR(std::logic_error, message, table.verify());
  EXPECT_ERROR(std::logic_error, message, table.fault_in(Ids32{1}));
  EXPECT_ERROR(std::logic_error, message, table.modify(Ids32{1}));
}

TEST_F(TableFiles, AllowOneProgramAndOneLayer) {
  TableFile table(path(), kSmall);
  EXPECT_HAS(open_error(), "is already open, in this or another program");
  const std::string checkpoint = table.checkpoint_id();
  {
    const TableFile::Lease lease = table.lease();
    EXPECT_ERROR_WITH(std::invalid_argument, "another layer uses the table", table.lease());
    EXPECT_THROW(table.restore(checkpoint), std::logic_error);
    table.restore(checkpoint, lease);
  }
  table.restore(checkpoint);
  table.lease();
}

// The checksum of format 2 did not detect changes of the highest bits of two values.
TEST_F(TableFiles, DetectTwoNegatedValues) {
  {
    TableFile table(path(), kSmall);
    checkpoint_with(table, {3}, 1);
  }
  const std::size_t values = 4096 + 3 * kSmallStride + 16;
  for (const std::size_t i : {1, 3})
    damage("words.table", values + (i + 1) * sizeof(real) - 1, 0x80);
  TableFile table(path());
  EXPECT_ERROR_WITH(std::runtime_error, "row 3 is damaged", row(table, 3));
  EXPECT_ERROR_WITH(std::runtime_error, "1 row is damaged, the first is row 3", table.verify());
}

TEST_F(TableFiles, RejectFilesThatAreNotTables) {
  EXPECT_HAS(open_error(), "No such file");
  { std::ofstream(path()) << "text"; }
  EXPECT_HAS(open_error(), "not a rowgrad table");
  std::filesystem::resize_file(path(), 5000);
  EXPECT_HAS(open_error(), "not a rowgrad table");
  std::filesystem::remove(path());
  { TableFile table(path(), kSmall); }
  const auto size = std::filesystem::file_size(path());
  std::filesystem::resize_file(path(), size - 1);
  EXPECT_HAS(open_error(), concat("bytes, expected ", size));
  std::filesystem::resize_file(path(), size);
  struct Damage {
    std::string file;
    std::size_t offset;
    char bits;
    std::string message;
  };
  for (const Damage& item :
       std::vector<Damage>{{"words.table", 24, 0x55, "the table header is damaged"},
                           {"words.table", 7, '3' ^ '1', "is a table of format 1, expected 2 or 3"},
                           {"words.table", 7, '3' ^ '4', "is a table of format 4, expected 2 or 3"},
                           {"words.table", 7, '3' ^ '2', "the table header is damaged"},
                           {"words.table.undo-0", 7, '2' ^ '3',
                            "undo-0: undo file of format 03, expected at most 02"}}) {
    damage(item.file, item.offset, item.bits);
    EXPECT_HAS(open_error(), item.message);
    damage(item.file, item.offset, item.bits);
  }
  std::string head = read_file(path()).substr(0, 56);  // the header before its checksum
  head[8] = sizeof(real) + 4;
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(head)));
  const std::uint64_t value = sum.value();
  copy("words.table", "whole");
  overwrite("words.table", 0, head.append(reinterpret_cast<const char*>(&value), sizeof value));
  EXPECT_HAS(open_error(),
             concat("has elements of ", sizeof(real) + 4, " bytes, expected ", sizeof(real)));
  copy("whole", "words.table");
  std::filesystem::remove(path("words.table.undo-0"));
  EXPECT_HAS(open_error(), "words.table.undo-0: undo file is missing");
}

TEST_F(TableFiles, RejectInvalidOptions) {
  struct Case {
    TableFileOptions options;
    std::string message;
  };
  const std::string expected = ", expected 1 to 2147483647 rows and a width of at least 1";
  for (const Case& item : std::vector<Case>{
           {{.rows = 0, .width = 4}, "the shape is [0, 4]" + expected},
           {{.rows = 5'000'000'000, .width = 4}, "the shape is [5000000000, 4]" + expected},
           {{.rows = 4, .width = 0}, "the shape is [4, 0]" + expected},
           {{.rows = 4, .width = std::size_t{1} << 61},
            "shape [4, 2305843009213693952] exceeds the limit of 4611686018427387904 bytes"},
           {{.rows = 4, .width = 4, .slots = 9}, "slots is 9, expected at most 8"},
           {{.rows = 4, .width = 4, .init_std = -1},
            "init_std is -1, expected a finite value of at least 0"}}) {
    EXPECT_INVALID("TableFile: " + item.message, TableFile table(path(), item.options));
    EXPECT_EQ(files(), std::set<std::string>());
  }
  { std::ofstream(path()) << "mine"; }
  EXPECT_ERROR_WITH(std::invalid_argument, "exists, expected a new path",
                    TableFile table(path(), kSmall));
  EXPECT_EQ(read_file(path()), "mine");
}

TEST_F(TableFiles, FindSlotsByName) {
  TableFile table(path(), {.rows = 4, .width = 1, .slots = 2});
  EXPECT_EQ(table.add_slot("mean"), 0);
  EXPECT_EQ(table.add_slot("square"), 1);
  EXPECT_EQ(table.find_slot("square"), 1);
  EXPECT_EQ(table.find_slot("momentum"), std::nullopt);
  EXPECT_THROW(table.add_slot("momentum"), std::logic_error);
  table.clear_slots();  // for another optimizer
  EXPECT_EQ(table.add_slot("momentum"), 0);
}

}  // namespace
