package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/ingest"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// ingest measures runs that are written over HTTP against the Go package, which publishes to the same server: the rate of many writers, and the time until the
// first token of a request can be read.
func (l *harness) ingest() []pair {
	const writers = 64
	many := writing{harness: l, writers: writers, each: l.cfg.size(2000)}
	first := firstToken{harness: l, runs: l.cfg.size(200)}
	return []pair{
		{
			name: fmt.Sprintf("ingest-%d-writers", writers), baseline: "producers.Run.Emit", ours: many.ours, raw: many.native,
			targets: []target{{figure: chunksPerSecond, ratioAtLeast: 0.8}},
		},
		{
			name: "ingest-first-token", baseline: "producers.Run.Emit", ours: first.ours, raw: first.native,
			targets: []target{{figure: middle, aboveBaselineAtMost: 2}},
		},
	}
}

// ingestSite starts an edge with the ingest.
func (l *harness) ingestSite(ctx context.Context) (*httpSite, error) {
	made, err := l.newEdge(nil)
	if err != nil {
		return nil, err
	}
	producer, err := producers.New(l.js, producers.Config{Positions: jssnapshots.NewPositions(l.js, subjects.Layout{})})
	if err != nil {
		return nil, err
	}
	if _, err := ingest.New(made, jsingest.New(producer, dialects.NewTranslator), ingest.Config{}); err != nil {
		return nil, errors.Join(err, producer.Close())
	}
	site, err := serveEdge(ctx, made)
	if err != nil {
		return nil, errors.Join(err, producer.Close())
	}
	stop := site.close
	site.close = func() error { return errors.Join(stop(), producer.Close()) }
	return site, nil
}

// post sends a request and decodes the last line of the response, which has to be complete.
func post(ctx context.Context, client *http.Client, url, media string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", media)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode > http.StatusCreated || bytes.Contains(text, []byte(`"error"`))) {
		err = fmt.Errorf("%s: %d %s", url, resp.StatusCode, text)
	}
	return err
}

// openRun opens a run, and returns the URL of its lines.
func openRun(ctx context.Context, client *http.Client, site *httpSite, session string) (string, error) {
	base := "http://" + site.addr + "/v1/sessions/" + session + "/runs"
	return base + "/r/chunks?epoch=1", post(ctx, client, base, "application/json", strings.NewReader(`{"runId":"r","agentType":"bench"}`))
}

// writing are writers of chunks that are never merged.
type writing struct {
	harness       *harness
	writers, each int
}

func (c writing) session(side string, round, i int) string {
	return fmt.Sprintf("ingest-%s%d-%d-%d", side, round, i, time.Now().UnixNano())
}

func (c writing) ours(ctx context.Context, round int) (figures, error) {
	site, err := c.harness.ingestSite(ctx)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.writers}}
	defer client.CloseIdleConnections()
	out, err := c.send(ctx, client, site, round)
	return out, errors.Join(err, site.close())
}

func (c writing) send(ctx context.Context, client *http.Client, site *httpSite, round int) (figures, error) {
	urls, bodies := make([]string, c.writers), make([][]byte, c.writers)
	for i := range urls {
		session := c.session("o", round, i)
		var err error
		if urls[i], err = openRun(ctx, client, site, session); err != nil {
			return nil, err
		}
		for n := range c.each {
			line, err := json.Marshal(event(rootSession(session), n))
			if err != nil {
				return nil, err
			}
			bodies[i] = append(append(bodies[i], line...), '\n')
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i, url := range urls {
		group.Go(func() error { return post(ctx, client, url, "application/x-ndjson", bytes.NewReader(bodies[i])) })
	}
	err := group.Wait()
	return rate(c.writers*c.each, time.Since(start)), err
}

func (c writing) native(ctx context.Context, round int) (figures, error) {
	runs := make([]*producers.Run, c.writers)
	sessions := make([]chunk.Session, c.writers)
	defer func() {
		for _, run := range runs {
			if run != nil {
				_ = run.Close() // everything is stored
			}
		}
	}()
	for i := range runs {
		sessions[i] = rootSession(c.session("r", round, i))
		var err error
		if runs[i], err = c.harness.producer.Start(ctx, sessions[i], chunk.RunStarted{}, producers.AgentType("bench")); err != nil {
			return nil, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i, run := range runs {
		group.Go(func() error {
			for n := range c.each {
				if err := run.Emit(ctx, event(sessions[i], n)); err != nil {
					return err
				}
			}
			_, err := run.Flush(ctx)
			return err
		})
	}
	err := group.Wait()
	return rate(c.writers*c.each, time.Since(start)), err
}

// firstToken measures the time from the first token of a run until a reader that follows the session has it. Over HTTP it includes the request.
type firstToken struct {
	harness *harness
	runs    int
}

func (f firstToken) ours(ctx context.Context, round int) (figures, error) {
	site, err := f.harness.ingestSite(ctx)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}}
	defer client.CloseIdleConnections()
	out, err := f.measure(ctx, "o", round, func(session string) (emit, done func() error, err error) {
		url, err := openRun(ctx, client, site, session)
		if err != nil {
			return nil, nil, err
		}
		in, out := io.Pipe()
		ended := make(chan error, 1)
		emit = func() error {
			go func() { ended <- post(ctx, client, url, "application/x-ndjson", in) }()
			_, err := io.WriteString(out, `{"type":"text_delta","delta":"`+token+`"}`+"\n")
			return err
		}
		return emit, func() error { return errors.Join(out.Close(), <-ended) }, nil
	})
	return out, errors.Join(err, site.close())
}

func (f firstToken) native(ctx context.Context, round int) (figures, error) {
	return f.measure(ctx, "r", round, func(session string) (emit, done func() error, err error) {
		run, err := f.harness.producer.Start(ctx, rootSession(session), chunk.RunStarted{}, producers.AgentType("bench"))
		if err != nil {
			return nil, nil, err
		}
		done = func() error {
			_, err := run.Flush(ctx) // a reader may have the record before the writer has its acknowledgement
			return errors.Join(err, run.Close())
		}
		return func() error { return run.EmitBody(ctx, chunk.TextDelta{Delta: token}) }, done, nil
	})
}

func (f firstToken) measure(ctx context.Context, side string, round int, begin func(session string) (emit, done func() error, err error)) (figures, error) {
	took := make([]time.Duration, f.runs)
	for i := range took {
		session := fmt.Sprintf("token-%s%d-%d-%d", side, round, i, time.Now().UnixNano())
		emit, done, err := begin(session)
		if err != nil {
			return nil, err
		}
		if took[i], err = f.one(ctx, session, emit); err != nil {
			return nil, err
		}
		if err := done(); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return figures{{middle, ms(median(took))}, {slowest, ms(took[len(took)*99/100])}}, nil
}

// one returns the time from emit until a reader that has the start of the run has the token.
func (f firstToken) one(ctx context.Context, session string, emit func() error) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var began time.Time
	for rec, err := range f.harness.reader.Follow(ctx, chunk.Range{Session: rootSession(session)}) {
		switch {
		case err != nil:
			return 0, err
		case rec.Type == chunk.TypeRunStarted:
			began = time.Now()
			if err := emit(); err != nil {
				return 0, err
			}
		case rec.Type == chunk.TypeTextDelta:
			return time.Since(began), nil
		}
	}
	return 0, errors.New("the reader ended")
}
