// Package jsmirror reads the log of a deployment from mirrors in another JetStream domain, such as that of a leaf node. The records come from the mirrors; the
// deployment itself, called home, is only asked for the state of its streams.
//
// A mirror has two properties that a reader must know about:
//   - It is behind. A client that has written at home, or has read there, expects to see that. So a read asks home for the end of the stream when it begins, and
//     waits until the mirror has everything up to it. While home cannot be reached, a read returns what the mirror has.
//   - The server joins two histories of a stream: if the stream is deleted at home and created again, or restored, the mirror appends the records of the new
//     history to those of the old one. So a mirror has the epoch of its stream in its metadata, and a record of the mirror is delivered after home has reported
//     the same epoch at a time when the mirror already had the record. If home has another epoch, nothing of the mirror is delivered until it is created again.
package jsmirror
