//go:build e2e

package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/ingesttest"
)

// retryLater is the wait of a client before it repeats a request.
func retryLater() <-chan time.Time { return time.After(5 * time.Millisecond) }

// client writes one run as docs/reference/ingest.md says, each request through a random edge. Every second request with lines is cut at a random byte. It is for one goroutine.
type client struct {
	rng   *rand.Rand
	edges []string // URLs

	session, run string
	takeOver     bool
	lines        []string

	epoch  int64
	stored int             // lines that were acknowledged
	late   *sync.WaitGroup // requests that were given up
}

// errFenced reports that another writer has the session.
var errFenced = errors.New("fenced")

// answer is the last line of a response, or a state.
type answer struct {
	status int

	Done   bool   `json:"done"`
	Epoch  int64  `json:"epoch"`
	Stored int    `json:"stored"`
	Next   int    `json:"next"`
	Status any    `json:"status"` // of the run, or the number of a problem
	Code   string `json:"code"`
}

// send sends a request through a random edge. The error is that of a connection: the caller repeats the request.
func (c *client) send(ctx context.Context, method, path, media string, body io.Reader) (answer, error) {
	url := c.edges[c.rng.IntN(len(c.edges))] + "/v1/sessions/" + c.session + "/runs" + path
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	text, err := io.ReadAll(resp.Body)
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) && err != nil {
			break // was cut
		}
		next := answer{status: resp.StatusCode}
		if err := json.Unmarshal(line, &next); err != nil {
			return a, fmt.Errorf("%w: %.100q", err, line)
		}
		next.Stored = max(next.Stored, a.Stored) // a heartbeat has none
		a = next
	}
	if a.Stored > c.stored {
		c.stored = a.Stored
	}
	return a, err
}

// refused returns the error of an answer that no repetition changes, nil for another one.
func (a answer) refused() error {
	switch {
	case a.Code == "FENCED":
		return errFenced
	case a.status == http.StatusServiceUnavailable, a.Code == "BODY_CUT", a.Code == "SUPERSEDED", a.Code == "WRONG_FIRST_LINE", a.Code == "UNAVAILABLE", a.Code == "DRAINING":
		return nil
	case a.Code != "" || a.status >= 300:
		return fmt.Errorf("refused: %d %s", a.status, a.Code)
	}
	return nil
}

// repeat sends a request until it is accepted.
func (c *client) repeat(ctx context.Context, method, path, body string) (answer, error) {
	media := ""
	if body != "" {
		media = "application/json"
	}
	for {
		a, err := c.send(ctx, method, path, media, strings.NewReader(body))
		switch {
		case err == nil && a.Code == "" && a.status < 300:
			return a, nil
		case err == nil && a.refused() != nil:
			return a, a.refused()
		}
		select {
		case <-ctx.Done():
			return a, errors.Join(ctx.Err(), err)
		case <-retryLater():
		}
	}
}

func (c *client) open(ctx context.Context) error {
	a, err := c.repeat(ctx, http.MethodPost, "", fmt.Sprintf(`{"runId":%q,"agentType":%q,"takeOver":%t}`, c.run, ingesttest.AgentType, c.takeOver))
	c.epoch = a.Epoch
	return err
}

// write sends the lines until all are stored.
func (c *client) write(ctx context.Context) error {
	defer c.late.Wait()
	for next := 1; next <= len(c.lines); {
		first := next
		if c.rng.IntN(3) == 0 { // lines that are stored are sent again
			first = 1 + c.rng.IntN(next)
		}
		a, err := c.attempt(ctx, first)
		switch {
		case err == nil && a.Done && a.Stored != len(c.lines):
			return fmt.Errorf("the request from line %d is done with %d of %d lines stored", first, a.Stored, len(c.lines))
		case err == nil && a.Done:
			return nil
		case err == nil && a.refused() != nil:
			return a.refused()
		}
		state, err := c.repeat(ctx, http.MethodGet, "/"+c.run+"?epoch="+fmt.Sprint(c.epoch), "")
		if err != nil {
			return err
		}
		next = state.Next
	}
	return nil
}

// attempt sends the lines from first. Sometimes a request that was given up arrives at the same time.
func (c *client) attempt(ctx context.Context, first int) (answer, error) {
	if c.rng.IntN(4) == 0 {
		late := *c
		late.rng = rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		c.late.Go(func() { _, _ = late.post(ctx, 1+late.rng.IntN(first)) }) // nothing reads its response
	}
	return c.post(ctx, first)
}

func (c *client) post(ctx context.Context, first int) (answer, error) {
	text := strings.Join(c.lines[first-1:], "\n") + "\n"
	path := fmt.Sprintf("/%s/chunks?epoch=%d&firstLine=%d", c.run, c.epoch, first)
	var body io.Reader = strings.NewReader(text)
	if c.rng.IntN(2) == 0 {
		body = io.MultiReader(io.LimitReader(body, c.rng.Int64N(int64(len(text)))), broken{})
	}
	return c.send(ctx, http.MethodPost, path, "application/x-ndjson", body)
}

// broken is the end of a body that is cut.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut") }

// end ends the run.
func (c *client) end(ctx context.Context) error {
	a, err := c.repeat(ctx, http.MethodPost, fmt.Sprintf("/%s/end?epoch=%d", c.run, c.epoch), "")
	if err == nil && a.Status != "ended" {
		return fmt.Errorf("the run that was ended is %v", a.Status)
	}
	return err
}
