// Package natstest starts JetStream servers for tests: processes that can be
// killed, or clusters of them.
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		srv := natstest.Start(t)     // a port of its own, files in t.TempDir
//		js := srv.JetStream(t)
//		…
//		srv.Restart(t)               // same files; connections reconnect
//	}
//
// Use Start in most tests: it takes about 50 ms. Use StartProcess for SIGKILL
// and SIGSTOP, and StartCluster for replication: leader changes and lagging
// followers. A Proxy between a client and a server drops bytes; a FaultProxy
// drops, duplicates and reorders single messages.
//
// Servers are built without the race detector. Everything ends with the test that
// started it, or with the test binary, even if that is killed. If the test failed,
// the end of the server's log is printed. A server that does not start fails the
// test with the reason; this package never skips a test.
package natstest
