// Package view hides parts of a session from an audience: reasoning, the arguments and results of tools, the output of sub-agents.
//
// A View lists the chunk types that are shown and the members of them that are hidden. Anything that it does not list is hidden, so a type or member of a
// later build does not appear by itself. The server removes members from records; the sequence of a record stays, and a reader's cursor advances over
// hidden records, so resuming is as exact as without a view.
//
// # Output
//
// chunk.Decode accepts every chunk that is shown: a hidden member is left out where the chunk schema allows that, and empty ("", {}, [] or null) where it
// does not. In a masked member each text and number is "•". Other members stay byte for byte. A record that chunk.Decode rejects (malformed, a duplicate name, a type that is not the
// record's) is hidden as a whole, because its content cannot be determined.
//
// Events of the stream itself (end, failure, pauses, cleanups) are always shown, because readers wait for them. The final output and the error text in
// them are content and are shown only if the view lists stream_end or stream_failed.
//
// The same rules, applied to a snapshot, give the page that matches the stream. A member of a page is shown if all chunk members that it is made from are
// shown.
//
// Compiled.Chat returns the rules for chats of the AI SDK, which show the same in a stream and in a page.
//
// # What a view does not hide
//
// A view does not hide that something happened, and when: hidden records leave their sequence in the id-only events that advance a cursor. It does not
// hide how an agent divides its text over chunks, nor what the agent itself writes: a secret in a text is in the text.
package view
