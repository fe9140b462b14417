#include "net/socket.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Endpoint, ParsesItsOwnTextAndRefusesTheRest) {
  for (const char* text : {"127.0.0.1:29500", "host.name:0", "unix:/run/x.sock"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(endpoint->to_string(), text);
  }
  for (const char* text :
       {"", "host", ":80", "host:", "host:port", "host:65536", "host:-1", "host:80x", "unix:"})
    EXPECT_EQ(Endpoint::parse(text).error().code(), Code::invalid_argument) << text;
}

TEST(Socket, APortInUseIsBusyAndNamed) {
  const auto first = listen_socket(Endpoint::tcp("127.0.0.1", 0), 4);
  ASSERT_TRUE(first);
  const auto at = local_endpoint(first->get());
  ASSERT_TRUE(at);
  EXPECT_GT(at->port, 0);
  const auto second = listen_socket(*at, 4);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::busy);
  EXPECT_NE(second.error().message().find(at->to_string()), std::string::npos);
}

TEST(Socket, AHostWithoutAnAddressIsNotFound) {
  EXPECT_EQ(connect_socket(Endpoint::tcp("no-such-host.invalid", 1)).error().code(),
            Code::not_found);
}

TEST(Socket, APathTooLongForAUnixSocketIsRefused) {
  EXPECT_EQ(listen_socket(Endpoint::unix_path(std::string(200, 'x')), 1).error().code(),
            Code::invalid_argument);
  EXPECT_EQ(connect_socket(Endpoint::unix_path("/nonexistent/x.sock")).error().code(),
            Code::peer_lost);
}

}  // namespace
}  // namespace muster
