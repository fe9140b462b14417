// Two rank processes that run one collective per line of standard input and answer with its time:
//   all_reduce|reduce_scatter|all_gather  shm|shm_private|tcp  ELEMENTS
//   -> WALL_NS CPU_NS   (the slower rank's wall time, both ranks' CPU time)
// Buffers: shm = in shared memory (shared_alloc), shm_private = ordinary memory, tcp = TCP on
// loopback. compare.py drives it and gloo in turn.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/shm_group.h"
#include "comm/shm_segment.h"
#include "comm/tcp_group.h"
#include "net/real_transport.h"

using namespace muster;

namespace {

constexpr int kWorld = 2;

int64_t cpu_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

struct Command {
  char collective[24] = {};
  char backend[24] = {};
  int64_t elements = 0;
};

struct Buffer {
  std::unique_ptr<float[]> own;
  std::span<float> data;
};

class RankProcess {
 public:
  RankProcess(Communicator& shm, Communicator& tcp) : shm_(shm), tcp_(tcp) {}

  void serve() {
    for (;;) {
      Command command;
      if (shm_.rank().value == 0) read(command);
      shm_.broadcast(std::as_writable_bytes(std::span(&command, 1)), Rank{0}).wait().value();
      if (command.elements == 0) return;
      measure(command);
    }
  }

 private:
  static void read(Command& command) {
    long long elements = 0;
    if (std::scanf("%23s %23s %lld", command.collective, command.backend, &elements) == 3)
      command.elements = elements;
  }

  std::span<float> buffer(const std::string& name, const std::string& backend, int64_t elements) {
    Buffer& b = buffers_[name + backend + std::to_string(elements)];
    if (!b.data.empty()) return b.data;
    if (backend == "shm") {
      b.data = {reinterpret_cast<float*>(shm_.shared_alloc(elements * 4).value().data()),
                static_cast<size_t>(elements)};
    } else {
      b.own = std::make_unique<float[]>(static_cast<size_t>(elements));
      b.data = {b.own.get(), static_cast<size_t>(elements)};
    }
    return b.data;
  }

  void measure(const Command& command) {
    const std::string backend = command.backend, collective = command.collective;
    Communicator& group = backend == "tcp" ? tcp_ : shm_;
    const std::span<float> in = buffer("in", backend, command.elements);
    std::fill(in.begin(), in.end(), 1.0f);
    const std::vector<int64_t> bounds = even_bounds(command.elements, kWorld, 16);
    const auto r = static_cast<size_t>(group.rank().value);
    const auto slice =
        in.subspan(static_cast<size_t>(bounds[r]), static_cast<size_t>(bounds[r + 1] - bounds[r]));
    const std::span<float> out = buffer("out", backend, static_cast<int64_t>(slice.size()));
    const float* const part = in.data();

    shm_.barrier().wait().value();
    const int64_t cpu = cpu_ns();
    const Nanos start = clock_.now();
    if (collective == "all_reduce")
      group.all_reduce(in, ReduceOp::sum).wait().value();
    else if (collective == "reduce_scatter")
      group.reduce_scatter_tree<float>(std::span(&part, 1), kWorld, bounds, out).wait().value();
    else
      group.all_gather<float>(slice, bounds, in).wait().value();
    int64_t wall = (clock_.now() - start).count();
    int64_t used = cpu_ns() - cpu;

    const float want = collective == "all_gather" ? 1.0f : 2.0f;
    const std::span<float> result = collective == "reduce_scatter" ? out : in;
    MUSTER_CHECK(
        std::count(result.begin(), result.end(), want) == static_cast<int64_t>(result.size()),
        collective, backend);
    shm_.all_reduce(std::span(&wall, 1), ReduceOp::max).wait().value();
    shm_.all_reduce(std::span(&used, 1), ReduceOp::sum).wait().value();
    if (r == 0) {
      std::printf("%lld %lld\n", static_cast<long long>(wall), static_cast<long long>(used));
      std::fflush(stdout);
    }
  }

  RealClock clock_;
  Communicator& shm_;
  Communicator& tcp_;
  std::map<std::string, Buffer> buffers_;
};

int run_rank(int rank, const std::shared_ptr<ShmSegment>& segment, const GroupOptions& options) {
  RealClock clock;
  RealTransport transport(clock);
  auto shm = join_shm_group(clock, segment, Rank{rank}, options).value();
  const SocketId listener = transport.listen(Endpoint::tcp("127.0.0.1", 0)).value();
  const auto texts = shm->gather_bytes(transport.local(listener).value().to_string()).value();
  std::vector<Endpoint> addresses;
  for (const std::string& text : texts) addresses.push_back(Endpoint::parse(text).value());
  auto tcp = join_tcp_group(transport, listener, addresses, Rank{rank}, 1, options).value();
  RankProcess(*shm, *tcp).serve();
  shm->barrier().wait().value();
  return 0;
}

}  // namespace

int main() {
  GroupOptions options;
  options.timeout = std::chrono::hours{1};
  // Made before the fork, so that both have it.
  const std::shared_ptr<ShmSegment> segment = ShmSegment::create(kWorld, options).value();
  const pid_t other = ::fork();
  if (other == 0) {
    std::fclose(stdin);
    return run_rank(1, segment, options);
  }
  const int code = run_rank(0, segment, options);
  int status = 0;
  ::waitpid(other, &status, 0);
  return code != 0 || status != 0;
}
