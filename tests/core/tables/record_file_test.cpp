// Record files that are not tables: access to records, generations and state.

#include "tests/test.hpp"

namespace {

// Records of 16 bytes, each filled with its index. renew() clears the last byte.
constexpr std::size_t kContentBytes = 16;
constexpr RecordFile::Kind kBytes{
    .magic = "rgbytes",
    .layout = [](const RecordFile::Facts& facts,
                 const std::filesystem::path&) -> std::pair<std::size_t, std::size_t> {
      return {facts[0], kContentBytes};
    },
    .fill = [](const RecordFile::Facts&, std::size_t record,
               std::byte* content) { std::fill_n(content, kContentBytes, std::byte(record)); },
    .renew = [](const RecordFile::Facts&,
                std::byte* content) { content[kContentBytes - 1] = std::byte{0}; }};

class RecordFiles : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  RecordFile file_{folder_ / "bytes", kBytes, {100}};
};

TEST_F(RecordFiles, AccessOnlyRecordsPreparedByModify) {
  static_assert(
      !std::is_default_constructible_v<RecordWriter> &&
      !std::is_constructible_v<RecordWriter, RecordFile&> &&
      std::is_same_v<decltype(std::declval<RecordFile&>().read(0)), std::span<const std::byte>>);
  const RecordWriter records = file_.modify(Ids32{3, 5});
  records.content<std::byte>(3)[0] = std::byte{77};
  const std::string message = "row 4 is not prepared for changes; pass it to modify()";
  EXPECT_ERROR_WITH(std::logic_error, message, records.content<std::byte>(4));
  EXPECT_ERROR_WITH(std::logic_error, message, records.note(4));
  EXPECT_THROW(records.content<std::byte>(100), std::logic_error);
  EXPECT_EQ(file_.stored(), 2);  // records 3 and 5
  EXPECT_EQ(file_.read(3)[0], std::byte{77});
  EXPECT_EQ(file_.read(5)[0], std::byte{5});
  EXPECT_TRUE(file_.read(4).empty());
  file_.commit();
  EXPECT_THROW(records.content<std::byte>(3), std::logic_error);
  EXPECT_EQ(file_.verify(), 2);
  file_.modify(Ids32{3});
  EXPECT_NO_THROW(records.content<std::byte>(3));
}

TEST_F(RecordFiles, RejectIndicesOutOfRange) {
  for (const std::int32_t id : {-1, 100}) {
    const std::string message = concat("row ", id, " is out of range: the table has 100 rows");
    EXPECT_ERROR_WITH(std::invalid_argument, message, file_.fault_in(Ids32{1, id}));
    EXPECT_ERROR_WITH(std::invalid_argument, message, file_.prefetch(Ids32{1, id}));
    EXPECT_ERROR_WITH(std::invalid_argument, message, file_.modify(Ids32{1, id}));
    EXPECT_ERROR_WITH(std::invalid_argument, message, file_.read(static_cast<std::size_t>(id)));
  }
  EXPECT_EQ(file_.stored(), 0);
}

TEST_F(RecordFiles, RenewOutdatedRecords) {
  const std::string empty = file_.checkpoint_id();
  file_.modify(Ids32{7}).note(7) = 40;
  EXPECT_EQ(file_.note(7), 40);
  ++file_.state().generation;
  file_.state().notes[23] = 9;
  EXPECT_FALSE(file_.is_current(7));
  EXPECT_EQ(file_.note(7), 0);
  EXPECT_EQ(file_.read(7).back(), std::byte{7});
  file_.modify(Ids32{7});
  EXPECT_EQ(file_.note(7), 0);
  EXPECT_EQ(file_.read(7)[0], std::byte{7});
  EXPECT_EQ(file_.read(7)[kContentBytes - 1], std::byte{0});
  file_.rollback(empty);
  EXPECT_EQ(file_.state().generation, 1);
  EXPECT_EQ(file_.state().notes[23], 0);
  EXPECT_TRUE(file_.read(7).empty());
}

TEST_F(RecordFiles, AreNotOpenedAsAnotherKind) {
  { RecordFile other(folder_ / "other", kBytes, {1}); }
  EXPECT_ERROR_WITH(std::runtime_error, "not a rowgrad table", TableFile(folder_ / "other"));
  RecordFile again(folder_ / "other", kBytes);
  EXPECT_EQ(again.facts()[0], 1);
}

}  // namespace
