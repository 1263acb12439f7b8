// Package jsclient calls the JetStream API where the client library does not suffice. It reads messages from the leader of a stream or from any replica,
// as the caller chooses, returns the number of purged messages, and stores a message by compare-and-set with retries until the outcome is known. It
// holds the table of the server's error codes: ResultOf and Final.
//
//	c := jsclient.New(js)
//	m, err := c.Last(ctx, "TR_CHUNKS_0", subject)
//	if errors.Is(err, jsclient.ErrNotFound) {
//		// the leader has no message of this subject
//	}
package jsclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// requestTimeout bounds a request if its context has no deadline.
const requestTimeout = 5 * time.Second

// ErrBadResponse reports a response that the JetStream API does not define.
var ErrBadResponse = errors.New("invalid response")

// Client calls the JetStream API on one connection. Its methods may be called concurrently.
type Client struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	prefix string // with the dot

	unpurgeable sync.Map // name of a stream to the error of WriteFailed: the user may not purge it
}

// New returns a Client for the connection of js and its domain or API prefix. It does not call the server.
func New(js jetstream.JetStream) *Client {
	c := &Client{js: js, nc: js.Conn(), prefix: jetstream.DefaultAPIPrefix}
	switch o := js.Options(); {
	case o.Domain != "":
		c.prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		c.prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return c
}

// PublishSubject returns the subject under which a message is published: with a domain or an API prefix, that of a key-value bucket needs the prefix. The
// server maps no other subject that has it, also none of an object bucket.
func (c *Client) PublishSubject(subject string) string {
	if c.prefix == jetstream.DefaultAPIPrefix || !strings.HasPrefix(subject, "$KV.") {
		return subject
	}
	return c.prefix + subject
}

// failure is the part of each response that reports an error of the server.
type failure struct {
	Error *jetstream.APIError `json:"error"`
}

func (f *failure) apiError() *jetstream.APIError { return f.Error }

// request calls the API under the prefix and decodes the response. The error wraps *jetstream.APIError if the server has refused the request.
func (c *Client) request(ctx context.Context, subject string, query any, response interface{ apiError() *jetstream.APIError }) error {
	m, err := c.call(ctx, subject, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(m.Data, response); err != nil {
		return fmt.Errorf("%s: %w: %w", subject, ErrBadResponse, err)
	}
	if refused := response.apiError(); refused != nil {
		return fmt.Errorf("%s: %w", subject, refused)
	}
	return nil
}

func (c *Client) call(ctx context.Context, subject string, query any) (*nats.Msg, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	before := c.nc.LastError()
	m, err := c.nc.RequestWithContext(ctx, c.prefix+subject, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, denial(c.nc, c.prefix+subject, before, err))
	}
	return m, nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, requestTimeout)
}
