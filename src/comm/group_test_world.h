// For tests: a group of ranks as threads on a chosen backend, and data for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "comm/communicator.h"
#include "comm/shm_group.h"
#include "comm/tcp_group.h"
#include "net/real_transport.h"
#include "net/sim_network.h"

namespace muster {

enum class Backend { shm, shm_staged, tcp, sim_tcp };

inline std::string backend_name(Backend backend) {
  constexpr const char* kNames[] = {"shm", "shm_staged", "tcp", "sim_tcp"};
  return kNames[static_cast<int>(backend)];
}

class RankThreads {
 public:
  RankThreads(Backend backend, int world, GroupOptions options)
      : backend_(backend),
        world_(world),
        options_(std::move(options)),
        network_(sim_clock_, world) {
    options_.shared_bytes = int64_t{64} << 20;
    if (backend == Backend::shm || backend == Backend::shm_staged) {
      segment_ = std::move(ShmSegment::create(world, options_)).value();
      return;
    }
    for (int r = 0; r < world; ++r) {
      const bool sim = backend == Backend::sim_tcp;
      Transport& t = transport(r);
      listeners_.push_back(t.listen(Endpoint::tcp(sim ? "" : "127.0.0.1", 0)).value());
      const uint16_t port = t.local(listeners_.back()).value().port;
      addresses_.push_back(Endpoint::tcp(sim ? host_name(r) : "127.0.0.1", port));
    }
  }

  SimNetwork& network() { return network_; }
  Backend backend() const { return backend_; }
  static std::string host_name(int rank) { return "host" + std::to_string(rank); }

  Result<std::unique_ptr<Communicator>> join(int rank) {
    if (segment_) return join_shm_group(clock_, segment_, Rank{rank}, options_);
    return join_tcp_group(transport(rank), listeners_[static_cast<size_t>(rank)], addresses_,
                          Rank{rank}, 42, options_);
  }

  // Runs `body` as every rank and returns when all are done.
  void run(const std::function<void(Communicator&)>& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < world_; ++r)
      threads.emplace_back([&, r] {
        {
          auto group = join(r);
          if (!group)
            ADD_FAILURE() << group.error().to_string();
          else
            body(**group);
        }
        network_.leave();
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  Transport& transport(int rank) {
    return backend_ == Backend::sim_tcp ? network_.host(host_name(rank)) : real_;
  }

  Backend backend_;
  int world_;
  GroupOptions options_;
  RealClock clock_;
  RealTransport real_{clock_};
  SimClock sim_clock_;
  SimNetwork network_;
  std::shared_ptr<ShmSegment> segment_;
  std::vector<SocketId> listeners_;
  std::vector<Endpoint> addresses_;
};

// Memory of the kind the backend is tested with: shared_alloc, or outside of it.
class Buffers {
 public:
  Buffers(Communicator& group, Backend backend)
      : group_(group), staged_(backend == Backend::shm_staged) {}
  template <class T>
  std::span<T> make(int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    if (staged_) {
      private_.push_back(std::make_unique<std::byte[]>(bytes + 1));
      return {reinterpret_cast<T*>(private_.back().get()), static_cast<size_t>(count)};
    }
    return {reinterpret_cast<T*>(group_.shared_alloc(static_cast<int64_t>(bytes)).value().data()),
            static_cast<size_t>(count)};
  }

 private:
  Communicator& group_;
  bool staged_;
  std::vector<std::unique_ptr<std::byte[]>> private_;
};

// Element `i` of leaf `leaf`: sums of these depend on the order.
inline float leaf_element(int64_t leaf, int64_t i) {
  const uint64_t bits = philox_u64(5, static_cast<uint64_t>(leaf), static_cast<uint64_t>(i));
  return static_cast<float>((unit_double(bits) - 0.5) *
                            std::ldexp(1.0, static_cast<int>(bits % 24) - 12));
}

template <class T>
T node_element(TreeNode node, int64_t leaves, int64_t i) {
  if (node.level == 0) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(
          philox_u64(6, static_cast<uint64_t>(node.index), static_cast<uint64_t>(i)) >> 8);
    else
      return static_cast<T>(leaf_element(node.index, i)) * static_cast<T>(1.0000001);
  }
  const T left = node_element<T>({node.level - 1, 2 * node.index}, leaves, i);
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  return leaves_of(right, leaves).empty() ? left : left + node_element<T>(right, leaves, i);
}

// What one rank with all leaves would get.
template <class T>
std::vector<T> reference_sum(int64_t leaves, int64_t count) {
  std::vector<T> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(node_element<T>({root_level(leaves), 0}, leaves, i));
  return out;
}

// The parts of one rank.
template <class T>
std::vector<std::span<T>> make_parts(Buffers& buffers, const Communicator& group, int64_t leaves,
                                     int64_t count) {
  std::vector<std::span<T>> parts;
  for (const TreeNode node : subtrees_of(leaves, group.world(), group.rank())) {
    parts.push_back(buffers.make<T>(count));
    for (int64_t i = 0; i < count; ++i)
      parts.back()[static_cast<size_t>(i)] = node_element<T>(node, leaves, i);
  }
  return parts;
}

template <class T>
std::vector<const T*> pointers(const std::vector<std::span<T>>& parts) {
  std::vector<const T*> out;
  for (const std::span<T> part : parts) out.push_back(part.data());
  return out;
}

}  // namespace muster
