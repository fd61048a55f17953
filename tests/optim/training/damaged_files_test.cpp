// Readers verify files: flipped bits, truncation and ranges of zeros are errors unless the values
// read are unchanged. ROWGRAD_DAMAGES sets how many times each kind of file is damaged.

#include "tests/optim/training/runs.hpp"

namespace {

namespace fs = std::filesystem;

struct FileKind {
  std::string name;
  std::function<void(const fs::path& folder)> write;        // writes files into an empty folder
  std::function<std::string(const fs::path& folder)> read;  // returns everything it reads from them
  std::string damaged;  // part of the names of the files to damage; "" for all files
};

void PrintTo(const FileKind& kind, std::ostream* out) { *out << kind.name; }

std::string read_checkpoint(const fs::path& folder) {
  return bits_of(read_safetensors(folder / "file"));
}

std::string read_sharded_run(const fs::path& folder) {
  return bits_of(with_sharded_rows(read_safetensors(folder / "run"), folder / "run"));
}

std::string read_tokenizer(const fs::path& folder) {
  return load_tokenizer(folder / "file")->to_json();
}

GptModel small_gpt(std::size_t vocabulary) {
  Random random(1);
  return GptModel({.vocabulary = vocabulary, .context = 4, .width = 8, .heads = 2, .layers = 1},
                  random);
}

void write_sharded(const fs::path& folder) {
  run_ranks(2, [&](ProcessGroup& ranks) {
    RunOf made(kShardedCases[1], {.slices = 2, .ranks = &ranks, .sharded = true});
    made.run.train(3);
    write_sharded_checkpoint(folder / "run", made.run.state_dict(), *made.ranks,
                             made.model->parameters());
  });
}

// Writes a table with two checkpoints and later changes, and a file with the first checkpoint's id.
void write_table(const fs::path& folder) {
  TableFile table(folder / "table", {.rows = 40, .width = 6, .slots = 1, .seed = 7});
  table.add_slot("momentum");
  for (const real value : {1, 2, 3}) {
    if (value > 1) table.checkpoint();
    if (value == 2) write_file(folder / "mark", table.checkpoint_id());
    const Ids32 ids{3, 5, static_cast<std::int32_t>(10 * value)};
    const RecordWriter rows = table.modify(ids);
    for (const std::int32_t id : ids)
      std::fill_n(rows.content<real>(static_cast<std::size_t>(id)), 2 * table.width(), value);
  }
}

// Reads the table, restores its first checkpoint, and reads it again.
std::string read_table(const fs::path& folder) {
  TableFile table(folder / "table");
  std::string all = concat(table.named_slots(), table.checkpoint_id());
  const auto add_rows = [&] {
    table.verify();
    std::vector<real> row(2 * table.width());
    for (std::int32_t id = 0; id < 40; ++id) {
      table.read(static_cast<std::size_t>(id), row);
      all.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(real));
    }
  };
  add_rows();
  table.restore(read_file(folder / "mark"));
  add_rows();
  return all;
}

const std::vector<FileKind> kKinds{
    {"run",
     [](const fs::path& folder) {
       RunOf made(run_case("AdamW, clipped, with a schedule"));
       made.run.train(3);
       write_safetensors(folder / "file", made.run.state_dict());
     },
     read_checkpoint, ""},
    {"model",
     [](const fs::path& folder) {
       const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
       save_gpt(folder / "file", small_gpt(tokenizer.size()), tokenizer);
     },
     [](const fs::path& folder) {
       const SavedGpt saved = load_gpt(folder / "file");
       return saved.tokenizer->to_json() + bits_of(gpt_options_state(saved.model->options())) +
              bits_of(saved.model->state_dict());
     },
     ""},
    {"classifier",
     [](const fs::path& folder) {
       const GptModel body = small_gpt(10);
       StateDict file;
       file.put("gpt", gpt_options_state(body.options()));
       file.put("model", body.state_dict());
       file.put("labels", "[\"a\",\"b\"]");
       write_safetensors(folder / "file", file);
     },
     read_checkpoint, ""},
    {"adapters",
     [](const fs::path& folder) {
       GptModel body = small_gpt(10);
       Random random(1);
       add_lora(body, "blocks.*", {.rank = 2, .alpha = 8}, random);
       write_safetensors(folder / "file", lora_state(body));
     },
     read_checkpoint, ""},
    {"sharded part", write_sharded, read_sharded_run, ".part-"},
    {"manifest", write_sharded, read_sharded_run, "run"},
    {"word tokenizer",
     [](const fs::path& folder) {
       WordTokenizer::from_text("the cat sat on the mat: \"ö 世\"", {.special_tokens = {"<unk>"}})
           .save(folder / "file");
     },
     read_tokenizer, ""},
    {"character tokenizer",
     [](const fs::path& folder) {
       CharacterTokenizer::from_text("the cat sat on the mat: \"ö 世\"").save(folder / "file");
     },
     read_tokenizer, ""},
    {"byte-pair tokenizer",
     [](const fs::path& folder) {
       BytePairTokenizer::train("the cat sat on the mat, the cat", {.size = 270})
           .save(folder / "file");
     },
     read_tokenizer, ""},
    {"token file",
     [](const fs::path& folder) {
       const auto tokenizer = CharacterTokenizer::from_text("the cat sat");
       TokenFileWriter writer(folder / "file", tokenizer.vocabulary());
       Ids32 ids(9000);
       for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 7);
       writer.append(ids);
       writer.finish();
     },
     [](const fs::path& folder) {
       const TokenFile file(folder / "file");
       Ids32 ids(file.size());
       file.read(0, ids);
       return concat(file.header()->vocabulary_hash, ' ', file.header()->vocabulary_size, ' ',
                     bracketed(ids));
     },
     ""},
    {"table", write_table, read_table, "table"},
    {"journal", write_table, read_table, ".undo-"}};

class DamagedFiles : public ::testing::TestWithParam<FileKind> {};

TEST_P(DamagedFiles, ThrowOrReadTheSameValues) {
  const FileKind& kind = GetParam();
  const char* const set = std::getenv("ROWGRAD_DAMAGES");
  const int count = set != nullptr ? std::atoi(set) : 200;
  const TemporaryFolder original, copy;
  kind.write(original.path());
  std::map<std::string, std::string> files;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(original.path())) {
    const std::string name = entry.path().filename();
    files[name] = read_file(entry.path());
  }
  for (const auto& [name, contents] : files) {
    const bool other = (kind.damaged == "run" || kind.damaged == "table") && name != kind.damaged;
    if (!other && name.find(kind.damaged) != std::string::npos) names.push_back(name);
  }
  const fs::path folder = copy / "files";
  const auto read = [&](const std::string& name, const std::string& contents) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (const auto& [each, whole] : files)
      std::ofstream(folder / each) << (each == name ? contents : whole);
    return kind.read(folder);
  };
  const std::string good = read("", "");
  std::mt19937 random(std::random_device{}());
  int errors = 0, silent = 0;
  for (int i = 0; i < count; ++i) {
    const std::string& name = names[random() % names.size()];
    std::string contents = files.at(name);
    const std::size_t at = random() % contents.size(), bit = random() % 8;
    const unsigned how = random() % 20;
    const std::size_t size = std::min<std::size_t>(contents.size() - at, how == 0 ? 8 : 512);
    if (how > 3)
      contents[at] = static_cast<char>(contents[at] ^ (1 << bit));
    else if (how > 1)
      contents.resize(at);
    else
      contents.replace(at, size, size, '\0');
    try {
      const bool same = read(name, contents) == good;
      silent += same ? 0 : 1;
      EXPECT_TRUE(same) << name << ", "
                        << (how > 3   ? "bit "
                            : how > 1 ? "cut at "
                                      : "zeros at ")
                        << (how > 3 ? 8 * at + bit : at);
    } catch (const std::exception&) {
      ++errors;
    }
  }
  RecordProperty("errors", errors);
  if (set != nullptr)
    std::cout << kind.name << ": " << count << " damages, " << errors << " errors, "
              << count - errors - silent << " without effect, " << silent << " silent\n";
}

INSTANTIATE_TEST_SUITE_P(, DamagedFiles, ::testing::ValuesIn(kKinds), [](const auto& of) {
  std::string name = of.param.name;
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '-', '_');
  return name;
});

// A manifest contains the names of the parts that the next save writes.
TEST(DamagedManifests, AreReplacedBySaving) {
  const TemporaryFolder folder;
  const fs::path inner = folder / "inner", run = inner / "run";
  SingleProcess alone;
  StateDict state;
  state.put("table", full({2, 2}, 1));
  ParallelTraining tables(alone);
  Parameter table("table", zeros({2, 2}));
  tables.whole_table(table, 2, {});
  const std::vector<Parameter*> parameters{&table};
  const auto save = [&] { write_sharded_checkpoint(run, state, tables, parameters); };
  fs::create_directory(inner);
  save();
  const std::string good = read_file(run);
  const auto at = [&](const char* key) { return good.find(read_safetensors(run).string(key)); };
  std::vector<std::string> manifests;
  for (const char* key : {"split.next", "split.names"}) {
    manifests.push_back(good);
    manifests.back().replace(at(key), 12, "/../../other");
  }
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const std::size_t bit : {std::size_t{1}, i % 8}) {  // bit 1 turns '-' into '/'
      manifests.push_back(good);
      manifests.back()[i] = static_cast<char>(good[i] ^ (1 << bit));
    }
  const std::string part = concat("run.part-", read_safetensors(run).string("split.names"), "-0");
  const std::string part_of_good = read_file(inner / part);
  for (std::size_t i = 0; i < manifests.size(); ++i) {
    for (const auto& entry : fs::directory_iterator(inner)) fs::remove(entry);
    write_file(inner / part, part_of_good);
    std::ofstream(run) << manifests[i];
    ASSERT_NO_THROW(save()) << i;
    EXPECT_EQ(with_sharded_rows(read_safetensors(run), run).tensor("table", {2, 2}),
              full({2, 2}, 1));
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(entry.path() == inner || name == "run" || name.starts_with("run.part-")) << name;
    }
  }
  StateDict named = read_safetensors(run);
  named.erase("split.names");
  named.put("split.names", "/../../other");
  EXPECT_ERROR_WITH(std::runtime_error, "split.names is '/../../other', expected digits and '-'",
                    with_sharded_rows(named, run));
}

}  // namespace
