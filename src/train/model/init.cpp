#include "train/model/init.h"

#include <algorithm>

#include "base/hash.h"
#include "base/strict_math.h"

namespace muster {

template <class T>
void init_elements(const Param& param, uint64_t seed, int64_t begin, int64_t end, T* out) {
  if (param.init.kind != InitKind::normal) {
    std::fill(out, out + (end - begin), param.init.kind == InitKind::ones ? T{1} : T{0});
    return;
  }
  const uint64_t key = xxh3_64(param.name, seed);
  for (int64_t i = begin; i < end; ++i)
    out[i - begin] =
        static_cast<T>(param.init.std * strict::normal(key, static_cast<uint64_t>(i), 0));
}

template <class T>
void init_unit(const ModelSpec& spec, int unit, uint64_t seed, ThreadTeam& team, T* buffer) {
  std::fill(buffer, buffer + spec.units[unit].elements, T{0});
  for (int index : spec.units[unit].params) {
    const Param& param = spec.params[index];
    team.parallel_for(param.count(), 1024, [&](int64_t begin, int64_t end, int) {
      init_elements(param, seed, begin, end, buffer + param.offset + begin);
    });
  }
}

template void init_elements(const Param&, uint64_t, int64_t, int64_t, float*);
template void init_elements(const Param&, uint64_t, int64_t, int64_t, double*);
template void init_unit(const ModelSpec&, int, uint64_t, ThreadTeam&, float*);
template void init_unit(const ModelSpec&, int, uint64_t, ThreadTeam&, double*);

}  // namespace muster
