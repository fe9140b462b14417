// Real pipes: nobody who writes ever waits for somebody who does not read.
#include "runtime/supervise/log_pump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "runtime/supervise/terminal_writer.h"

namespace muster {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

constexpr Nanos kPatience = std::chrono::seconds{20};

class LogPumpTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-log-XXXXXX";
    folder_ = mkdtemp(pattern);
    screen_.reset(open((folder_ + "/screen").c_str(), O_RDWR | O_CREAT | O_APPEND, 0644));
  }
  void TearDown() override {
    const std::string command = "rm -rf " + folder_;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::unique_ptr<LogPump> start(int screen) {
    LogPump::Options options;
    options.out_fd = options.err_fd = screen;
    options.terminal_queue_bytes = 1 << 20;
    auto pump = LogPump::start(clock_, options);
    EXPECT_TRUE(pump.ok());
    return *std::move(pump);
  }
  // Returns the write end.
  OwnedFd add(LogPump& pump, uint64_t worker, bool error, bool file) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    LogPump::Stream stream;
    stream.worker = worker;
    stream.error = error;
    stream.pipe.reset(fds[0]);
    if (file) stream.file = this->file(worker, error);
    stream.terminal = true;
    stream.label = "[" + std::to_string(worker) + "] ";
    pump.add(std::move(stream));
    return OwnedFd(fds[1]);
  }
  std::string file(uint64_t worker, bool error) const {
    return folder_ + "/logs/" + std::to_string(worker) + (error ? "/err" : "/out");
  }
  static void put(const OwnedFd& fd, const std::string& text) {
    ASSERT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  RealClock clock_;
  std::string folder_;
  OwnedFd screen_;
};

TEST_F(LogPumpTest, ManyWritersGiveWholeLabelledLinesAndExactFiles) {
  const auto pump = start(screen_.get());
  constexpr int kWriters = 8, kLines = 2000;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    OwnedFd fd = add(*pump, static_cast<uint64_t>(w), false, true);
    writers.emplace_back([fd = std::move(fd), w] {
      // Cut without respect for lines, as stdio does.
      std::string text;
      for (int i = 0; i < kLines; ++i)
        text += "writer " + std::to_string(w) + " line " + std::to_string(i) + "\n";
      for (size_t at = 0; at < text.size(); at += 777) put(fd, text.substr(at, 777));
    });
  }
  for (std::thread& writer : writers) writer.join();
  pump->finish(kPatience, kPatience);
  std::istringstream screen(read_file(folder_ + "/screen"));
  std::vector<int> next(kWriters, 0);
  for (std::string line; std::getline(screen, line);) {
    int label, writer, number;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] writer %d line %d", &label, &writer, &number), 3)
        << line;
    EXPECT_EQ(label, writer);
    EXPECT_EQ(number, next[static_cast<size_t>(writer)]++);
  }
  for (int w = 0; w < kWriters; ++w) {
    EXPECT_EQ(next[static_cast<size_t>(w)], kLines);
    const std::string log = read_file(file(static_cast<uint64_t>(w), false));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), kLines);
    EXPECT_TRUE(log.starts_with("writer " + std::to_string(w) + " line 0\n"));
  }
}

TEST_F(LogPumpTest, LastLinesPreferStandardError) {
  const auto pump = start(screen_.get());
  OwnedFd out = add(*pump, 1, false, false);
  OwnedFd err = add(*pump, 1, true, false);
  OwnedFd only_out = add(*pump, 2, false, false);
  put(out, "a\nb\n");
  put(err, "x\ny\nz");
  put(only_out, "p\nq\n");
  EXPECT_EQ(pump->last_lines(1, 2), (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(pump->last_lines(2, 50), (std::vector<std::string>{"p", "q"}));
  EXPECT_TRUE(pump->last_lines(3, 50).empty());
}

TEST_F(LogPumpTest, AReaderThatDoesNotReadBlocksNobodyAndIsTold) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  OwnedFd nobody_reads(fds[0]), screen(fds[1]);
  const auto pump = start(screen.get());
  OwnedFd out = add(*pump, 1, false, true);
  const std::string line(99, 'x');
  constexpr int kLines = 40'000;  // 4 MB into a queue of 1 MiB behind a full pipe
  for (int i = 0; i < kLines; ++i) put(out, line + "\n");
  out.reset();
  pump->finish(kPatience, kPatience);
  EXPECT_GT(pump->drops().terminal_lines, 0);
  EXPECT_EQ(read_file(file(1, false)).size(), size_t{100} * kLines);  // the file has them all
}

TEST_F(LogPumpTest, AReaderThatLeftIsNoError) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  close(fds[0]);
  OwnedFd screen(fds[1]);
  const auto pump = start(screen.get());
  OwnedFd out = add(*pump, 1, false, false);
  put(out, "a\nb\n");
  out.reset();
  pump->finish(kPatience, kPatience);
}

TEST_F(LogPumpTest, AFileThatCannotBeWrittenIsCountedAndNamed) {
  const auto pump = start(screen_.get());
  std::ofstream(folder_ + "/logs") << "in the way";
  OwnedFd out = add(*pump, 1, false, true);
  put(out, "a\nb\n");
  out.reset();
  pump->finish(kPatience, kPatience);
  EXPECT_EQ(pump->drops().file_lines, 2);
  EXPECT_NE(pump->drops().file_error.find("/logs/1/out"), std::string::npos);
  EXPECT_EQ(read_file(folder_ + "/screen"), "[1] a\n[1] b\n");
}

TEST_F(LogPumpTest, FinishDoesNotWaitForAPipeThatSomebodyKeepsOpen) {
  const auto pump = start(screen_.get());
  OwnedFd out = add(*pump, 1, false, false);
  put(out, "said\n");
  const Nanos before = clock_.now();
  pump->finish(std::chrono::milliseconds{50}, kPatience);
  EXPECT_LT(clock_.now() - before, kPatience);
  EXPECT_EQ(read_file(folder_ + "/screen"), "[1] said\n");
}

// What a rank left behind writes on for ever: neither the question after its last lines nor the
// end may wait for that.
TEST_F(LogPumpTest, AWriterThatNeverStopsHoldsNobodyUp) {
  const auto pump = start(screen_.get());
  OwnedFd out = add(*pump, 1, false, false);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);  // the pump goes before the writer
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    fcntl(out.get(), F_SETFL, O_NONBLOCK);
    const std::string text(4096, '\n');
    while (!stop)
      if (write(out.get(), text.data(), text.size()) < 0) std::this_thread::yield();
  });
  static_cast<void>(pump->last_lines(1, 5));
  pump->finish(kPatience, std::chrono::milliseconds{50});
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace muster
