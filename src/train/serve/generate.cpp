#include "train/serve/generate.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {

int64_t most_tokens(const GenerateRequest& request, int64_t context) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt >= context || request.max_tokens <= 0 || request.max_tokens > context - prompt)
    return context;
  return prompt + request.max_tokens;
}

template <class T>
Result<Generated> generate(Decoder<T>& decoder, const GenerateRequest& request,
                           const std::function<bool(int32_t)>& on_token) {
  MUSTER_TRY(validate(request.sampling));
  if (request.max_tokens < 0)
    return Error(Code::invalid_argument,
                 fmt::format("max_tokens = {} must be 0 (to the end of the context) or more",
                             request.max_tokens));
  decoder.clear();
  MUSTER_TRY(decoder.read(request.prompt));
  Generated result;
  for (;;) {
    MUSTER_TRY(const int32_t id, sample(decoder.logits(), request.sampling, decoder.length()));
    if (std::find(request.stop.begin(), request.stop.end(), id) != request.stop.end()) {
      result.reason = StopReason::stop_token;
      return result;
    }
    result.tokens.push_back(id);
    const bool go_on = !on_token || on_token(id);
    if (!go_on || static_cast<int64_t>(result.tokens.size()) == request.max_tokens) {
      result.reason = StopReason::max_tokens;
      return result;
    }
    if (decoder.length() == decoder.capacity()) {
      result.reason = StopReason::context;
      return result;
    }
    MUSTER_TRY(decoder.append(id));
  }
}

template Result<Generated> generate(Decoder<float>&, const GenerateRequest&,
                                    const std::function<bool(int32_t)>&);
template Result<Generated> generate(Decoder<double>&, const GenerateRequest&,
                                    const std::function<bool(int32_t)>&);

}  // namespace muster
