#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/examples/support/spam_collection.hpp>

namespace rowgrad {

const PublishedFile kSpamCollection = {
    .name = "SMSSpamCollection",
    .title = "the SMS Spam Collection",
    .url = "https://archive.ics.uci.edu/static/public/228/sms+spam+collection.zip",
    .sha256 = "7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d",
    .bytes = 477'907};

namespace {

// Lines of a label, a tab and a text. As pandas has it, a text that begins with a quote goes on
// behind line ends until the quote is closed, and what is behind that belongs to it.
std::vector<LabelledText> messages_in(const std::string& name, const std::string& file) {
  std::vector<LabelledText> messages;
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t tab = std::min(file.find('\t', at), file.size());
    const std::string label = file.substr(at, tab - at);
    check_runtime(tab < file.size() && (label == "ham" || label == "spam"), name, ": message ",
                  messages.size() + 1, " begins with ", in_quotes(label.substr(0, 20)),
                  ", expected ham or spam, and a tab");
    std::string text;
    bool quoted = file.substr(tab + 1, 1) == "\"";
    for (at = tab + (quoted ? 2 : 1); at < file.size() && (quoted || file[at] != '\n'); ++at) {
      if (!quoted || file[at] != '"') {
        text += file[at];
      } else if (file.substr(at, 2) == "\"\"") {
        text += file[at++];
      } else {
        quoted = false;
      }
    }
    check_runtime(!quoted, name, ": the quote of message ", messages.size() + 1,
                  " is never closed");
    ++at;
    if (text.ends_with('\r')) text.pop_back();
    messages.push_back({std::move(text), label == "spam" ? 1U : 0U});
  }
  return messages;
}

// Takes `count` of them in the order of NumPy's RandomState(123).permutation.
std::vector<LabelledText> sample(const std::vector<LabelledText>& messages, std::size_t count) {
  Random random(123);
  std::vector<std::size_t> order(messages.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t last = order.size(); last-- > 1;) {
    const std::size_t mask = std::bit_ceil(last + 1) - 1;
    std::size_t drawn = 0;
    do drawn = random.bits() & mask;
    while (drawn > last);
    std::swap(order[last], order[drawn]);
  }
  std::vector<LabelledText> taken;
  for (std::size_t i = 0; i < count; ++i) taken.push_back(messages[order[i]]);
  return taken;
}

}  // namespace

SpamCollection read_spam_collection(const std::filesystem::path& path) {
  const PublishedFile& published = kSpamCollection;
  const auto advice = [&] {
    return concat("download ", published.url, " and unpack ", published.name, " (", published.bytes,
                  " bytes, SHA-256 ", published.sha256, ")");
  };
  check_runtime(file_exists(path), "there is no ", path.string(), ": ", advice());
  const std::string file = read_file(path);
  check_runtime(file.size() != published.bytes || sha256(file) == published.sha256, path.string(),
                " is damaged, its SHA-256 is ", sha256(file), ": ", advice());
  std::vector<LabelledText> ham;
  std::vector<LabelledText> spam;
  for (LabelledText& each : messages_in(path.string(), file))
    (each.label == 0 ? ham : spam).push_back(std::move(each));
  check_runtime(ham.size() >= spam.size() && spam.size() >= 5, path.string(), ": has ", ham.size(),
                " messages of ham and ", spam.size(), " of spam, expected at least 5 of spam and ",
                "as many of ham");
  std::vector<LabelledText> both = sample(ham, spam.size());
  both.insert(both.end(), spam.begin(), spam.end());
  both = sample(both, both.size());
  const auto size = static_cast<double>(both.size());
  const auto training = both.begin() + static_cast<std::ptrdiff_t>(size * 0.7);
  const auto validation = training + static_cast<std::ptrdiff_t>(size * 0.1);
  return {{both.begin(), training}, {training, validation}, {validation, both.end()}};
}

}  // namespace rowgrad
