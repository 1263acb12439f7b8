package jsclient

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// IsCopy reports whether a stored message is a response of the server. A client may name any subject of its account as the reply of a direct get, and so store a
// message of its choice where it may not publish; each such response has its sequence in a header, and no program of this project stores a message with one. added is
// the number of values of the header that came with the delivery: 1 for a direct get or a republished message, 0 for a consumer and the leader.
func IsCopy(h nats.Header, added int) bool { return len(h[jetstream.SequenceHeader]) > added }

// WithoutCopy returns m, without header and data if it is a copy, so that every reader finds it malformed. See IsCopy for added.
func (m Message) WithoutCopy(added int) Message {
	if IsCopy(m.Header, added) {
		m.Header, m.Data = nil, nil
	}
	return m
}

// lastValue returns the value of a header that the server has added, after those that the message may have had.
func lastValue(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
