package jscontrol

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// Audit is the stream of the audit log. It owns no resources; its methods are safe for concurrent use.
type Audit struct {
	api    *jsclient.Client
	layout subjects.Layout
}

// NewAudit returns an Audit over js. It sends no request; the stream must exist when it is used (package topology creates it).
func NewAudit(js jetstream.JetStream, layout subjects.Layout) (*Audit, error) {
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("audit: Layout: %w", err)
	}
	return &Audit{api: jsclient.New(js), layout: layout}, nil
}

// auditRetryTimeout is the retry budget of one Put.
const auditRetryTimeout = 10 * time.Second

// Put stores an event. The server recognises a repetition by its id. The errors are those of jsclient.Client.Put, or a *names.TokenError.
func (a *Audit) Put(ctx context.Context, e audit.Event) error {
	subject, err := names.Layout(a.layout).Audit(e.Tenant, string(e.Act))
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	data, err := e.Encode()
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header(e.Header()), Data: data}
	msg.Header.Set(jetstream.MsgIDHeader, e.ID)
	// Without the name of the stream: Put would ask by a purge whether the server has failed to write it, which the stream refuses.
	if _, err = a.api.Put(ctx, jsclient.Put{Msg: msg, RetryTimeout: auditRetryTimeout}); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// AuditQuery selects events.
type AuditQuery struct {
	Tenant string    // "" for all
	Since  time.Time // zero for all
	Live   bool      // wait for further events at the present end
}

// StoredEvent is an event of the stream, or why its message is malformed.
type StoredEvent struct {
	audit.Event

	Seq uint64
	Err error
}

// Events yields events in the order in which they were stored, and at most one error, last. Without Live it ends at the present end.
func (a *Audit) Events(ctx context.Context, q AuditQuery) iter.Seq2[StoredEvent, error] {
	return func(yield func(StoredEvent, error) bool) {
		if err := a.events(ctx, q, yield); err != nil {
			yield(StoredEvent{}, err)
		}
	}
}

func (a *Audit) events(ctx context.Context, q AuditQuery, yield func(StoredEvent, error) bool) error {
	filter := names.Layout(a.layout).AllAudit()
	if q.Tenant != "" {
		var err error
		if filter, err = names.Layout(a.layout).TenantAudit(q.Tenant); err != nil {
			return err
		}
	}
	r := jsreader.NewOrdered(a.api, jsreader.OrderedConfig{Stream: names.Layout(a.layout).AuditStream(), Filter: filter, Live: q.Live})
	for m, err := range r.All(ctx) {
		switch {
		case err != nil:
			return fmt.Errorf("audit: %w", err)
		case m.Stored.Before(q.Since):
			continue
		}
		e := StoredEvent{Seq: m.Seq}
		e.Event, e.Err = audit.Decode(m.Header, m.Data)
		if !yield(e, nil) {
			return nil
		}
	}
	return nil
}
