#include "comm/open_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "comm/owned_socket.h"
#include "comm/shm_group.h"
#include "comm/shm_segment.h"
#include "comm/tcp_group.h"
#include "runtime/rendezvous/tcp_store_client.h"

namespace muster {
namespace {

std::optional<std::string_view> find(const Environment& environment, std::string_view name) {
  const auto it = environment.find(name);
  if (it == environment.end()) return std::nullopt;
  return it->second;
}

Result<int> number(const Environment& environment, std::string_view name, int least, int most) {
  const std::optional<std::string_view> text = find(environment, name);
  if (!text) return Error(Code::not_found, fmt::format("{} is not set", name));
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most)
    return Error(Code::invalid_argument, fmt::format("{}=\"{}\"; a number from {} to {} is needed",
                                                     name, *text, least, most));
  return value;
}

struct Place {
  Rank rank;
  int world = 1;
};

Result<Place> place_of(const Environment& environment) {
  if (!find(environment, "WORLD_SIZE")) return Place{};
  MUSTER_TRY(const int world, number(environment, "WORLD_SIZE", 1, 1 << 20));
  MUSTER_TRY(const int rank, number(environment, "RANK", 0, world - 1));
  return Place{Rank{rank}, world};
}

// Equal on processes that can open each other's descriptors: one kernel, one set of process ids.
std::string host_identity() {
  std::array<char, 256> text{};
  std::string identity;
  const OwnedFd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (boot.valid()) {
    const ssize_t n = ::read(boot.get(), text.data(), text.size());
    if (n > 0) identity.assign(text.data(), static_cast<size_t>(n));
  }
  const ssize_t n = ::readlink("/proc/self/ns/pid", text.data(), text.size());
  if (n > 0) identity.append(text.data(), static_cast<size_t>(n));
  return identity;
}

// The ranks' meeting through the launcher's store. Keys carry the restart count: some launchers
// keep one store over all attempts.
class Meeting {
 public:
  Meeting(TcpStoreClient& store, const Environment& environment, Place place, Nanos timeout)
      : store_(store), place_(place), timeout_(timeout) {
    const std::string_view attempt = find(environment, "TORCHELASTIC_RESTART_COUNT").value_or("0");
    prefix_ = fmt::format("muster/comm/{}", attempt);
  }

  Status say(std::string_view what, std::string_view value) {
    return store_.set(key(what, place_.rank.value), value);
  }
  Result<std::string> hear(std::string_view what, int rank) {
    return store_.get(key(what, rank), timeout_).context(fmt::format("meeting rank {}", rank));
  }
  Result<std::vector<std::string>> hear_all(std::string_view what) {
    std::vector<std::string> values;
    for (int r = 0; r < place_.world; ++r) {
      MUSTER_TRY(std::string value, hear(what, r));
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  std::string key(std::string_view what, int rank) const {
    return fmt::format("{}/{}/{}", prefix_, what, rank);
  }
  TcpStoreClient& store_;
  Place place_;
  Nanos timeout_;
  std::string prefix_;
};

bool all_equal(const std::vector<std::string>& values) {
  for (const std::string& value : values)
    if (value != values.front()) return false;
  return true;
}

// Rank 0 makes the segment; the others open it through its process. An answer without a segment
// means that not every rank could, which all ranks then know.
Result<std::shared_ptr<ShmSegment>> share_segment(Meeting& meeting, Place place,
                                                  const GroupOptions& options) {
  std::shared_ptr<ShmSegment> segment;
  if (place.rank.value == 0) {
    Result<std::shared_ptr<ShmSegment>> made = ShmSegment::create(place.world, options);
    if (made) segment = *made;
    MUSTER_TRY(meeting.say(
        "segment", made ? fmt::format("/proc/{}/fd/{}", ::getpid(), segment->fd()) : "none"));
  } else {
    MUSTER_TRY(const std::string path, meeting.hear("segment", 0));
    OwnedFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd.valid()) {
      Result<std::shared_ptr<ShmSegment>> mapped =
          ShmSegment::map(std::move(fd), place.world, options);
      if (mapped) segment = *mapped;
    }
  }
  MUSTER_TRY(meeting.say("mapped", segment ? "yes" : "no"));
  MUSTER_TRY(const std::vector<std::string> mapped, meeting.hear_all("mapped"));
  for (const std::string& answer : mapped)
    if (answer != "yes") segment.reset();
  return segment;
}

Result<std::unique_ptr<Communicator>> meet_over_tcp(Meeting& meeting, Transport& transport,
                                                    Random& random, Place place, bool one_host,
                                                    const GroupOptions& options) {
  MUSTER_TRY(const SocketId bound,
             transport.listen(Endpoint::tcp(one_host ? "127.0.0.1" : "0.0.0.0", 0)));
  OwnedSocket listener(transport, bound);
  MUSTER_TRY(Endpoint mine, transport.local(bound));
  std::array<char, 256> name{};
  if (one_host)
    mine.host = "127.0.0.1";
  else if (::gethostname(name.data(), name.size() - 1) == 0)
    mine.host = name.data();
  MUSTER_TRY(meeting.say("address", mine.to_string()));
  if (place.rank.value == 0) MUSTER_TRY(meeting.say("token", std::to_string(random.u64())));
  MUSTER_TRY(const std::string token_text, meeting.hear("token", 0));
  MUSTER_TRY(const std::vector<std::string> texts, meeting.hear_all("address"));
  std::vector<Endpoint> addresses;
  for (const std::string& text : texts) {
    MUSTER_TRY(Endpoint address, Endpoint::parse(text));
    addresses.push_back(std::move(address));
  }
  uint64_t token = 0;
  std::from_chars(token_text.data(), token_text.data() + token_text.size(), token);
  return join_tcp_group(transport, listener.release(), addresses, place.rank, token, options);
}

Result<std::unique_ptr<Communicator>> meet(const Environment& environment, Transport& transport,
                                           Random& random, Place place, std::string_view backend,
                                           const GroupOptions& options) {
  const std::optional<std::string_view> host = find(environment, "MASTER_ADDR");
  if (!host)
    return Error(
        Code::invalid_argument,
        fmt::format("WORLD_SIZE is {} but MASTER_ADDR is not set; start the ranks with muster run "
                    "or torchrun",
                    place.world));
  MUSTER_TRY(const int port, number(environment, "MASTER_PORT", 1, 65535));
  MUSTER_TRY(const std::unique_ptr<TcpStoreClient> store,
             TcpStoreClient::connect(transport,
                                     Endpoint::tcp(std::string(*host), static_cast<uint16_t>(port)),
                                     options.timeout));
  Meeting meeting(*store, environment, place, options.timeout);
  MUSTER_TRY(meeting.say("host", host_identity()));
  MUSTER_TRY(const std::vector<std::string> hosts, meeting.hear_all("host"));
  const bool one_host = all_equal(hosts);
  if (backend == "shm" && !one_host)
    return Error(Code::unsupported,
                 "MUSTER_COMM_BACKEND=shm, but the ranks are on several hosts; unset it");
  if (backend != "tcp" && one_host && place.world <= ShmSegment::kMaxWorld) {
    MUSTER_TRY(std::shared_ptr<ShmSegment> segment, share_segment(meeting, place, options));
    if (segment) return join_shm_group(transport.clock(), std::move(segment), place.rank, options);
    if (backend == "shm")
      return Error(
          Code::unsupported,
          "MUSTER_COMM_BACKEND=shm, but not every rank could map the shared segment; unset "
          "it");
  }
  return meet_over_tcp(meeting, transport, random, place, one_host, options);
}

}  // namespace

Result<std::unique_ptr<Communicator>> open_group(const Environment& environment,
                                                 Transport& transport, Random& random,
                                                 const GroupOptions& options) {
  const std::string_view backend = find(environment, "MUSTER_COMM_BACKEND").value_or("auto");
  if (backend != "auto" && backend != "shm" && backend != "tcp")
    return Error(Code::invalid_argument,
                 fmt::format("MUSTER_COMM_BACKEND=\"{}\"; auto, shm or tcp is needed", backend));
  MUSTER_TRY(const Place place, place_of(environment));
  if (place.world == 1) return solo_group(transport.clock(), options);
  return meet(environment, transport, random, place, backend, options);
}

}  // namespace muster
