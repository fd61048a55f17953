#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <zlib.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/examples/rowgrad/report/report_page.hpp>

namespace rowgrad {
namespace {

constexpr int kGzip = 16;   // added to zlib's window bits to write gzip's header
constexpr int kEffort = 4;  // takes a fifth of the time of level 6, with 12 % more bytes

std::string gzipped(const std::string& text) {
  z_stream stream{};
  check_runtime(deflateInit2(&stream, kEffort, Z_DEFLATED, MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                             Z_DEFAULT_STRATEGY) == Z_OK,
                "report: zlib cannot be initialized");
  std::string packed;
  std::string block(std::size_t{1} << 16, '\0');
  std::size_t read = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {  // zlib's counts have 32 bits
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

}  // namespace

void check_report_page() {
  check_runtime(!kReportBefore.empty(),
                "report: built without the chart library; install libjs-dygraphs and build again "
                "(data files do not need it)");
}

std::string report_page(const std::string& data) {
  check_report_page();
  std::string page(kReportBefore);
  page += base64(gzipped(data));
  return page += kReportAfter;
}

}  // namespace rowgrad
