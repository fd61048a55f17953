#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/output/row_list_text.hpp>

namespace {

TEST(RowList, IsReadableBySpreadsheets) {
  Parameter table("token.weight", zeros({5, 2}));
  TableHistory history(table, {.kind = RowKind::kToken});
  const auto controls = CharacterTokenizer::from_text(std::string_view("\0\v=\xE2\x80\xA8z", 7));
  const CharacterTokenizer tokenizer = CharacterTokenizer::from_text("\t\n\"a\\");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls),
             "\n0\t<0x00>\t0\t0\t0\t0\t0\tno\n1\t<0x0B>\t");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls), "\n4\t<0xE2><0x80><0xA8>\t");
  EXPECT_HAS(rows_text(history, list_rows(history), &controls, ','), "\n2,\"\\=\",");
  const CharacterTokenizer few = CharacterTokenizer::from_text("ab");
  std::vector<ListedRow> rows = list_rows(history);
  rows[3] = {3, 7, 2, 0.5, 0.25, 0.125, Learned::kHardly};
  rows[4].moved = std::nan("");
  EXPECT_EQ(rows_text(history, rows, &tokenizer),
            "id\ttoken\tlookups\tsteps\tgradient_norm\tnorm\tmoved\tlearned\n"
            "0\t\\t\t0\t0\t0\t0\t0\tno\n"
            "1\t\\n\t0\t0\t0\t0\t0\tno\n"
            "2\t\\\"\t0\t0\t0\t0\t0\tno\n"
            "3\t\\\\\t7\t2\t0.5\t0.25\t0.125\thardly\n"
            "4\ta\t0\t0\t0\t0\t\tno\n");
  const std::string csv = rows_text(history, rows, &tokenizer, ',');
  EXPECT_HAS(csv, "\n2,\"\"\"\",0,0,0,0,0,no\n");
  EXPECT_HAS(rows_text(history, rows, nullptr), "\n3\t3\t7\t");
  EXPECT_TRUE(
      rows_text(history, rows, &tokenizer, ';')
          .starts_with("id;token;lookups;steps;gradient_norm;norm;moved;learned\n0;\"\\t\";0;"));
  // A table may have more rows than tokens, and rows may have their own names.
  EXPECT_HAS(rows_text(history, rows, &few), "\n4\t4\t0\t");
  const TableHistory named(table, {.kind = RowKind::kToken, .names = {"v", "w", "x", "y", "z"}});
  EXPECT_HAS(rows_text(named, rows, &tokenizer), "\n3\ty\t7\t");
}

}  // namespace
