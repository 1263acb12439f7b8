// Package view hides from an audience what is not meant for it: reasoning, the
// arguments and results of tools, what sub-agents say among themselves.
//
// A View lists the chunk types that are shown, and the members of them that are
// not. What it does not list is hidden: a type or member that a later build
// brings does not appear by itself. A record loses its members on the server;
// its sequence stays, and a reader's cursor moves over what is hidden, so that
// resuming is as exact as without a view.
//
//	views, err := view.New(view.Config{
//		Views:   map[string]view.View{"customer": {Preset: view.Public}},
//		Default: "customer",
//	})
//	…
//	h, err := hub.New(log, feed, hub.Config{
//		Encode: native.Encode, Encodings: view.Encodings(views, hub.Encode(native.Encode)),
//	})
//	edge, err := sseedge.New(h, snapshots, sseedge.Config{Views: views})
//
// # What a reader gets
//
// Every chunk that is shown can still be read by chunk.Decode: a hidden member
// is left out where the catalogue allows that, and blank ("", {}, [] or null)
// where it does not. What is not hidden is passed on byte for byte. A record
// that chunk.Decode refuses (no JSON, a name twice, a type that is not the
// record's) is hidden as a whole: what cannot be understood cannot be vouched for.
//
// What happens to the stream itself (its end, failure, pauses, clean-ups) is
// always told, because a reader waits for it; the final output and the error
// text that come with it are content, and shown when the view lists
// stream_end or stream_failed.
//
// The same rules, applied to a snapshot, give the page that fits the stream.
// There a member is shown when all that feeds it is.
//
// # What a view does not hide
//
// That something happened, and when: hidden records leave their sequence in the
// id-only events that move a cursor. How an agent divides its words over chunks.
// And what the agent itself tells: a secret in a text is in the text.
package view
