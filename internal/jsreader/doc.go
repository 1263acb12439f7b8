// Package jsreader reads JetStream streams in order, also across lost connections, crashed servers and deleted consumers.
//
// An Ordered reads a filter of a stream through an ephemeral consumer and keeps its position itself:
//
//	o := jsreader.NewOrdered(client, jsreader.OrderedConfig{Stream: "TR_CHUNKS_0", Live: true})
//	for e, err := range o.All(ctx) {
//		…
//	}
//
// It reports ErrRecreated when the stream is not the one that was read before: it was deleted and created again, or a server restarted with an older copy of
// it.
package jsreader
