package jscontrol

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/subjects"
)

// encode returns the message of a valid command.
func encode(l subjects.Layout, c control.Command) (*nats.Msg, error) {
	subject, err := l.Command(c.Session.Tenant, c.AgentType, c.Session.ID)
	if err != nil {
		return nil, err
	}
	return encodeTo(subject, c)
}

func encodeTo(subject string, c control.Command) (*nats.Msg, error) {
	data, err := c.Encode()
	if err != nil {
		return nil, err
	}
	header := nats.Header(c.Header())
	header[jetstream.MsgIDHeader] = []string{c.ID()}
	codec.Encoded{Header: header}.SetTraceParent(c.TraceParent) // it is not part of the request, and so not in the body
	return &nats.Msg{Subject: subject, Data: data, Header: header}, nil
}
