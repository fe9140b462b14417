// The table of verbs. Each function is defined in the file of its name.
#include "app/cli/verb.h"

namespace muster {

int train_main(World& world, const std::vector<std::string>& arguments);
int data_main(World& world, const std::vector<std::string>& arguments);
int config_main(World& world, const std::vector<std::string>& arguments);
int score_main(World& world, const std::vector<std::string>& arguments);
int generate_main(World& world, const std::vector<std::string>& arguments);
int tokenizer_main(World& world, const std::vector<std::string>& arguments);
int run_main(World& world, const std::vector<std::string>& arguments);
int torchrun_main(World& world, const std::vector<std::string>& arguments);
int ckpt_main(World& world, const std::vector<std::string>& arguments);
int goodput_main(World& world, const std::vector<std::string>& arguments);
int trace_main(World& world, const std::vector<std::string>& arguments);
int plan_main(World& world, const std::vector<std::string>& arguments);
int import_hf_main(World& world, const std::vector<std::string>& arguments);
int export_hf_main(World& world, const std::vector<std::string>& arguments);

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      {"train", "train a model: workers, checkpoints, live view, report", train_main},
      {"run", "run N copies of a program as one supervised job", run_main},
      {"torchrun", "run a PyTorch script: torchrun's flags and environment", torchrun_main},
      {"generate", "let a checkpoint go on with a text, or fill its middle", generate_main},
      {"score", "log-probabilities of a text under a checkpoint", score_main},
      {"data", "show what a configuration's corpus holds and how it is packed", data_main},
      {"config", "show every setting of a configuration and where it came from", config_main},
      {"tokenizer", "train a vocabulary; turn text into token ids and back", tokenizer_main},
      {"ckpt", "list, show, verify and compare checkpoints", ckpt_main},
      {"goodput", "where every rank-second of a run went", goodput_main},
      {"trace", "export the recorded spans of a run", trace_main},
      {"plan", "print the operations of one training step with predicted time and memory",
       plan_main},
      {"import-hf", "make a checkpoint from a Hugging Face model folder", import_hf_main},
      {"export-hf", "write a checkpoint's model as a Hugging Face folder", export_hf_main},
  };
  return table;
}

}  // namespace muster
