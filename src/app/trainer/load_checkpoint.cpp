#include "app/trainer/load_checkpoint.h"

#include <utility>

#include "ckpt/scan.h"
#include "text/tokenizer_json.h"
#include "train/model/model_checkpoint.h"
#include "train/spec/checkpoint_model.h"

namespace muster {

template <class T>
Result<LoadedModel<T>> load_checkpoint(Files& files, const std::string& folder) {
  std::string place = folder;
  if (!files.stat(join_path(folder, kManifestName)).ok() &&
      files.stat(join_path(folder, "checkpoints")).ok()) {
    MUSTER_TRY(const FoundCheckpoint newest,
               newest_whole_checkpoint(files, join_path(folder, "checkpoints")));
    place = newest.folder;
  }
  MUSTER_TRY(auto reader, CheckpointReader::open(files, place));
  LoadedModel<T> loaded;
  MUSTER_TRY(loaded.model, load_model<T>(reader));
  const auto text = reader.attachment(kTokenizerFile);
  if (text.ok()) {
    MUSTER_TRY(Tokenizer tokenizer,
               tokenizer_from_json(*text).context(join_path(place, kTokenizerFile)));
    loaded.tokenizer.emplace(std::move(tokenizer));
  } else if (text.error().code() != Code::not_found) {
    return text.error();
  }
  return loaded;
}

template Result<LoadedModel<float>> load_checkpoint<float>(Files&, const std::string&);
template Result<LoadedModel<double>> load_checkpoint<double>(Files&, const std::string&);

Result<std::unique_ptr<Engine>> Engine::make(int threads, int64_t scratch_bytes,
                                             const std::string& isa_text) {
  MUSTER_TRY(const ops::Isa isa, ops::isa_from(isa_text, ops::best_isa()));
  MUSTER_TRY(Arena arena, Arena::make(static_cast<size_t>(scratch_bytes), false));
  return std::unique_ptr<Engine>(new Engine(threads, std::move(arena), isa));
}

}  // namespace muster
