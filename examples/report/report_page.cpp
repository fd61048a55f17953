#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <zlib.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/report/report_page.hpp>

namespace rowgrad {
namespace {

constexpr int kGzip = 16;   // added to the bits of the window: zlib writes gzip's header
constexpr int kEffort = 4;  // a fifth of the time of 6, for 12 % more bytes

std::string gzipped(const std::string& text) {
  z_stream stream{};
  check_runtime(deflateInit2(&stream, kEffort, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                             Z_DEFAULT_STRATEGY) == Z_OK,
                "--report: zlib does not start");
  std::string packed;
  std::string block(std::size_t{1} << 16, '\0');
  std::size_t read = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {  // zlib counts in 32 bits
      stream.avail_in = static_cast<uInt>(std::min(text.size() - read, std::size_t{1} << 30));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + read));
      read += stream.avail_in;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = deflate(&stream, read == text.size() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(block, 0, block.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

// RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = at; i < at + 3; ++i)
      three = three << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63U];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

}  // namespace

void check_report_page() {
  check_runtime(!kReportBefore.empty(),
                "--report needs the chart library: install libjs-dygraphs and build again "
                "(--report-data works without it)");
}

std::string report_page(const std::string& data) {
  check_report_page();
  std::string page(kReportBefore);
  page += base64(gzipped(data));
  return page += kReportAfter;
}

}  // namespace rowgrad
