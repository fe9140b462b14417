#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace muster {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::already_exists:
      return "already_exists";
    case Code::permission:
      return "permission";
    case Code::unsupported:
      return "unsupported";
    case Code::corrupt:
      return "corrupt";
    case Code::no_space:
      return "no_space";
    case Code::busy:
      return "busy";
    case Code::timeout:
      return "timeout";
    case Code::cancelled:
      return "cancelled";
    case Code::peer_lost:
      return "peer_lost";
    case Code::io:
      return "io";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string text;
  for (auto it = contexts_.rbegin(); it != contexts_.rend(); ++it) {
    text += *it;
    text += ": ";
  }
  return text + message_;
}

static Code code_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
    case ENXIO:
      return Code::not_found;
    case EEXIST:
    case EADDRINUSE:
      return Code::already_exists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::unsupported;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::no_space;
    case EAGAIN:
    case EBUSY:
    case ETXTBSY:
      return Code::busy;
    case ETIMEDOUT:
      return Code::timeout;
    case ECANCELED:
      return Code::cancelled;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ENOTCONN:
      return Code::peer_lost;
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
    case EISDIR:
    case ENOTDIR:
      return Code::invalid_argument;
    default:
      return Code::io;
  }
}

Error errno_error(int errno_value, std::string_view doing) {
  char buffer[128];
  std::string text(doing);
  text += ": ";
  text += strerror_r(errno_value, buffer, sizeof buffer);
  return Error(code_of_errno(errno_value), std::move(text));
}

}  // namespace muster
