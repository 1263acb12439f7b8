// Package codec converts records to messages and back: CloudEvents 1.0 in NATS headers (binary mode) with a body of JSON or msgpack.
//
//	msg, err := codec.Encode(codec.Envelope{Session: session, Epoch: epoch, Ordinal: ordinal}, c)
//	rec, err := codec.Decode(codec.Stored{Session: session, Seq: seq, At: storedAt, Header: msg.Header, Data: msg.Data})
//
// The package does not import NATS: the header of an Encoded can be assigned to a nats.Header, and the publisher adds the expected sequence. Writers must
// pass a valid chunk. Readers get JSON on one line; the identity of the record is checked against the session of the subject that it was read from. For
// any other message Decode returns an *EnvelopeError.
//
// The packages below this one are the dialects of agents and clients: a Translator turns the events of an agent into chunks, and a Writer turns the records of a turn
// into the events of a client.
//
// docs/reference/log.md shows the messages byte by byte and what a writer in another language sends.
package codec
