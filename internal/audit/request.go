package audit

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/tailrace/tailrace/chunk"
)

// Request is one request of a client. Its context carries it to where acts and refusals are known.
type Request struct {
	log     *Log
	tenant  string
	by      *chunk.Principal
	route   string
	address string
	refused atomic.Bool
	detail  *Event // by Describe, nil for none

	// id is created when it is needed: most requests, and all streams, only read.
	once sync.Once
	id   string
}

// key returns what tells the request from all others.
func (r *Request) key() string {
	r.once.Do(func() { r.id = rand.Text() })
	return r.id
}

type requestKey struct{}

// NewContext returns a context with a request of a client, whose acts and refusals are recorded in l. It is ctx for the nil *Log.
func (l *Log) NewContext(ctx context.Context, tenant string, by *chunk.Principal, route, address string) context.Context {
	if l == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, &Request{log: l, tenant: tenant, by: by, route: route, address: address})
}

func requestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// RefuseHidden records that the client of a request asked for a session that it must not know. The first refusal of a request is recorded, and no other one.
func RefuseHidden(ctx context.Context, s chunk.Session) {
	if r := requestOf(ctx); r != nil {
		r.refuse(Event{Session: s, Status: statusNotFound, Reason: ReasonHidden})
	}
}

// RefuseRequest records that a request got a response that refuses it. target has the Session or the Target that the client asked for.
func RefuseRequest(ctx context.Context, target Event, status int, reason string) {
	if r := requestOf(ctx); r != nil {
		target.Status, target.Reason = status, reason
		r.refuse(target)
	}
}

// Begin is Log.Begin for the log of the request of ctx, without one a function that records nothing.
func Begin(ctx context.Context, e Event) (end func(Outcome), err error) {
	if r := requestOf(ctx); r != nil {
		return r.log.Begin(ctx, e)
	}
	return func(Outcome) {}, nil
}

// Describe names what the act of a request is for, where its path does not: Session, Run, Call and Target of detail that are not empty. It is for the goroutine
// that serves the request.
func Describe(ctx context.Context, detail Event) {
	if r := requestOf(ctx); r != nil {
		r.detail = &detail
	}
}

const statusNotFound = 404

func (r *Request) refuse(e Event) {
	if !r.refused.Swap(true) {
		e.Tenant, e.By, e.Route, e.Address = r.tenant, r.by, r.route, r.address
		r.log.Refuse(e)
	}
}
