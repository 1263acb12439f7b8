// Package natstest gives a test a real JetStream server: in process, as a
// process of its own that can be killed, or as a cluster of such processes.
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		srv := natstest.Start(t)     // in process, no port, files in t.TempDir
//		js := srv.JetStream(t)
//		…
//		srv.Restart(t)               // same files; connections come back
//	}
//
// Start is for nearly everything: it costs some 20 ms. StartProcess is for what
// only a process can suffer: SIGKILL, SIGSTOP. StartCluster is for what
// replicas change: leaders that fall, followers that lag. A Proxy stands
// between a client and a server and loses bytes; a Mangler loses, doubles and
// swaps single messages.
//
// Everything belongs to the test that started it and ends with it; when that
// test failed, the end of the server's log is printed. A server that does not
// come up fails the test and says why: nothing here skips.
package natstest
