// Writes N lines of 100 bytes, each naming its rank and number: one write a line, or through
// stdio's buffer, which cuts lines anywhere.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int lines = std::atoi(argv[1]);
  const bool one_write_each = std::strcmp(argv[2], "writes") == 0;
  const char* rank = std::getenv("RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  std::string line(100, 'x');
  for (int i = 0; i < lines; ++i) {
    const int head = std::snprintf(line.data(), line.size(), "rank %04d line %08d ",
                                   rank == nullptr ? 0 : std::atoi(rank), i);
    line[static_cast<size_t>(head)] = 'x';
    line.back() = '\n';
    if (!one_write_each)
      std::fwrite(line.data(), 1, line.size(), stdout);
    else if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
      return 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
