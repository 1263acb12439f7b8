// Package codec turns records into messages and back: CloudEvents 1.0 in NATS
// headers (binary mode), and a body of JSON or msgpack.
//
//	msg, err := codec.Encode(session, epoch, ordinal, c, codec.FormatJSON)   // writing
//	rec, err := codec.Decode(session, seq, stored, m.Header, m.Data)         // reading
//
// It knows no NATS: a Message's header can be assigned to a nats.Header, and
// whoever publishes adds the expected sequence. What a writer owes is a valid
// chunk; what a reader gets is JSON on one line, with the identity of the
// record checked against the session of the subject it was read from. What is
// no such record is an *EnvelopeError, whatever came and from whomever.
//
// docs/cloudevents.md shows the messages byte by byte and says what a writer in
// another language sends.
package codec
