// Package jsinterest follows single trees of sessions without a consumer on the server: it subscribes to the messages that the streams of the log
// republish when they store them.
//
//	f, err := jsinterest.New(js, jsinterest.Config{Layout: layout})
//	for msg, err := range f.Open(ctx, f.Scope(root), after) {
//		…
//	}
//
// The streams must republish, see topology.Config.Republish. A server publishes a message again once and only as the leader: what it publishes while a
// connection is lost, and what was stored just before another server became the leader, never arrives. So a feed proves what it has received:
//   - a republished message names the message before it on its subject; if the feed has not delivered that one, it is missing,
//   - the last sequences of all sessions of the trees that are followed are compared with what was delivered, every two seconds, when a connection is back
//     and when a stream has another leader. This finds a missing message that no other one follows. Until the comparison is done no message is delivered.
//
// What is missing is read from the log and delivered in the order of the stream. If a later message of the tree was delivered already, the order cannot be
// restored and the feed ends with a *chunk.TruncatedError.
//
// One comparison is for all trees of a partition, in few requests. They are answered by any replica; the one that answers may lag, and then a later
// comparison finds what is missing.
package jsinterest
