package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	// Lanes is the largest number of webhooks at the same time.
	Lanes = 16

	// Refusals is how often a webhook is sent that the receiver refuses.
	Refusals = 3

	requestTimeout  = 20 * time.Second
	maxResponseBody = 64 << 10 // is read, so that the connection can be used again
)

// Client sends webhooks to one URL.
type Client struct {
	url     string
	secrets Secrets
	http    *http.Client
	gone    atomic.Bool // the receiver has answered 410
}

// New returns a Client for a URL such as webhook+https://host/path. It connects to public addresses only, and without TLS to those of this machine, as
// webhook+http://127.0.0.1:8080/path; private allows every address but link-local ones, and every host without TLS. No error has a part of the URL, which may have
// a secret.
func New(to *url.URL, secrets Secrets, private bool) (*Client, error) {
	at := *to
	at.Scheme = strings.TrimPrefix(at.Scheme, "webhook+")
	c := &Client{url: at.String(), secrets: secrets}
	switch {
	case at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return nil, errors.New("want a URL such as webhook+https://host/path")
	case at.User != nil:
		return nil, errors.New("the URL has a user, want none: the signature proves who sends")
	case private:
		c.http = outgoing.Client(nil)
	case at.Scheme == "https":
		c.http = outgoing.Restricted(outgoing.IsPublic)
	case !isLoopback(at.Hostname()):
		return nil, errors.New("want https for a host that is not this machine, or the setting that allows private addresses")
	default:
		c.http = outgoing.Restricted(netip.Addr.IsLoopback)
	}
	return c, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

var errGone = errors.New("the receiver has answered 410 Gone: nothing is sent before a restart")

// Deliver sends the webhook of one row, see export.Config.
func (c *Client) Deliver(ctx context.Context, rows []export.Row) error {
	if c.gone.Load() {
		return &export.RefusedError{Cause: errGone, Final: true}
	}
	r := rows[0]
	body, err := eventOf(r)
	if err != nil {
		return &export.RefusedError{Cause: errors.New("the content is not JSON"), Final: true}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	timestamp, signature := c.secrets.sign(r.Key(), time.Now(), body)
	for name, value := range map[string]string{
		"Content-Type": "application/cloudevents+json; charset=utf-8", "User-Agent": "tailrace-sink",
		"webhook-id": r.Key(), "webhook-timestamp": timestamp, "webhook-signature": signature,
	} {
		req.Header.Set(name, value)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL
		}
		return err
	}
	defer res.Body.Close()                                                //nolint:errcheck // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxResponseBody)) // the status is the answer
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode == http.StatusGone:
		c.gone.Store(true)
		return &export.RefusedError{Cause: errGone, Final: true}
	}
	return export.StatusError(res)
}

// decimal returns an amount as a decimal number.
func decimal(m row.Money) string {
	const units = 1_000_000_000
	text := strings.TrimRight(fmt.Sprintf("%d.%09d", m/units, m%units), "0")
	return strings.TrimSuffix(text, ".")
}
