#include <array>
#include <cstddef>
#include <curl/curl.h>
#include <exception>
#include <memory>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/support/data_files.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLimitBytes = std::size_t{16} << 20;

// Called by C code, through which no exception may pass. Accepting fewer bytes than offered ends
// the transfer.
std::size_t append(char* bytes, std::size_t size, std::size_t count, void* body) noexcept {
  auto& text = *static_cast<std::string*>(body);
  if (count > (kLimitBytes - text.size()) / size) return 0;
  try {
    text.append(bytes, size * count);
  } catch (const std::exception&) {
    return 0;
  }
  return size * count;
}

}  // namespace

std::string download(const std::string& url) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(),
                                                                   &curl_easy_cleanup);
  check_runtime(initialised == CURLE_OK && handle != nullptr, "libcurl cannot be initialised");

  std::string body;
  std::array<char, CURL_ERROR_SIZE> reason{};
  const auto set = [&](CURLoption option, auto value) {
    check_runtime(curl_easy_setopt(handle.get(), option, value) == CURLE_OK,
                  "libcurl refuses option ", option);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_REDIR_PROTOCOLS_STR, "https");
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_MAXFILESIZE_LARGE, curl_off_t{kLimitBytes});  // if the server announces the size
  set(CURLOPT_CONNECTTIMEOUT, 3L);
  set(CURLOPT_LOW_SPEED_LIMIT, 100L);  // bytes per second
  set(CURLOPT_LOW_SPEED_TIME, 10L);
  set(CURLOPT_NOSIGNAL, 1L);  // otherwise time-outs of name look-ups use SIGALRM
  set(CURLOPT_USERAGENT, "rowgrad");
  set(CURLOPT_WRITEFUNCTION, &append);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&body));
  set(CURLOPT_ERRORBUFFER, reason.data());

  const CURLcode result = curl_easy_perform(handle.get());
  check_runtime(result == CURLE_OK, reason[0] != '\0' ? reason.data() : curl_easy_strerror(result));
  return body;
}

}  // namespace rowgrad
