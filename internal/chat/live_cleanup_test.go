package chat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

// burstFeed is a log whose feed delivers nothing while hold is full, and then everything at once.
type burstFeed struct {
	httpedge.Log

	hold chan struct{}
}

func (l burstFeed) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		for m, err := range l.Log.Feed(ctx, partition, after) {
			select {
			case l.hold <- struct{}{}:
				<-l.hold
			case <-ctx.Done():
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// livePage reads a response while it arrives.
type livePage struct {
	name string
	done chan error

	mu   sync.Mutex
	body bytes.Buffer
}

func openPage(t *testing.T, name string, site *stack.Site, method, path, body string) *livePage {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, site.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	p := &livePage{name: name, done: make(chan error, 1)}
	go func() { p.done <- p.read(site.Client(), req) }()
	return p
}

func (p *livePage) read(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(p, resp.Body); resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d, %w", resp.StatusCode, err)
	}
	return err
}

func (p *livePage) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body.Write(b)
}

func (p *livePage) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body.String()
}

// TestLiveAnswerSurvivesCleanups has a live answer whose steps are removed one after the other, by takeovers or by the worker itself, while pages of all dialects
// read it. The feed delivers each removal at once with what follows, when the pages have text of the removed step. Each response continues with the new step, after
// the removal as its dialect shows it, and ends with the answer.
func TestLiveAnswerSurvivesCleanups(t *testing.T) {
	const removals = 8
	for _, mode := range []string{"takeover", "retried step"} {
		t.Run(mode, func(t *testing.T) {
			w := newEnv(t)
			written, goOn := make(chan struct{}, removals+1), make(chan struct{}, 1)
			writers := []*producers.Producer{w.NewWriter(producers.Config{}), w.NewWriter(producers.Config{})}
			w.work(func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
				if err := say(ctx, run, 1, "Kept. "); err != nil {
					return err
				}
				for n := range removals {
					if err := sayWrong(ctx, run, n); err != nil {
						return err
					}
					written <- struct{}{}
					select {
					case <-goOn:
					case <-ctx.Done():
						return ctx.Err()
					}
					if mode == "takeover" {
						next, err := writers[n%2].Start(ctx, c.Session, chunk.RunStarted{RunID: c.RunID, Mode: "takeover"}, producers.AgentType(c.AgentType))
						if err != nil {
							return err
						}
						t.Cleanup(func() { _ = next.Close() }) // it has ended, or the next one has replaced it
						run = next
					}
					if _, err := run.CleanupToStep(ctx, 1, 0); err != nil {
						return err
					}
				}
				if err := say(ctx, run, 2, "Right."); err != nil {
					return err
				}
				if err := run.End(ctx, nil); err != nil {
					return err
				}
				written <- struct{}{}
				return nil
			})
			hold := make(chan struct{}, 1)
			newEdge := func(major int) *edge {
				return w.newEdge(func(c *edgeConfig) {
					c.Dialect.Major = major
					c.log = func(log httpedge.Log) httpedge.Log { return burstFeed{log, hold} }
				})
			}
			chat6, chat7 := newEdge(6), newEdge(7)
			pages := []*livePage{openPage(t, "chat of version 6", chat6.Site, http.MethodPost, "/api/chat/s1", chatBody("", user("m-1", "Well?")))}
			natstest.Receive(t, "the first step", written)
			pages = append(pages, openPage(t, "chat of version 7", chat7.Site, http.MethodGet, "/api/chat/s1/stream", ""))
			front := w.Serve(chat6.front, func(ctx context.Context) error {
				<-ctx.Done() // it runs with the chat
				return nil
			})
			for _, dialect := range []string{"native", "aisdk", "agui", "mastra", "kortyx"} {
				pages = append(pages, openPage(t, dialect, front, http.MethodGet, "/v1/sessions/s1/events?after=0&dialect="+dialect, ""))
			}
			for n := range removals {
				awaitText(t, pages, fmt.Sprint("Wrong", n))
				hold <- struct{}{}
				goOn <- struct{}{}
				natstest.Receive(t, "the step after the removal", written)
				<-hold
			}
			for _, p := range pages {
				err := natstest.Receive(t, "the end of a response", p.done)
				body := p.String()
				if err != nil || !strings.Contains(body, "Right.") {
					t.Errorf("%s: %v after\n%s", p.name, err, body)
				}
				removal, want := map[string]string{
					"chat of version 6": `"type":"data-truncated"`, "chat of version 7": `"type":"reset-step"`, "aisdk": `"type":"data-truncated"`,
					"native": `"type":"truncated","truncatedAtStep":1,`, "agui": `"name":"tailrace.truncated"`, "mastra": `"type":"data-truncated"`,
				}[p.name], removals
				if got := strings.Count(body, removal); p.name != "kortyx" && got != want {
					t.Errorf("%s: %d removals, want %d:\n%s", p.name, got, want, body)
				}
			}
		})
	}
}

// sayWrong stores the beginning of a step that is removed.
func sayWrong(ctx context.Context, run *producers.Run, n int) error {
	run.SetStep(2)
	for _, body := range []chunk.Body{chunk.StepStart{}, chunk.TextDelta{Delta: fmt.Sprint("Wrong", n)}, chunk.TextDelta{Delta: " indeed"}} {
		if err := run.EmitBody(ctx, body); err != nil {
			return err
		}
	}
	_, err := run.Flush(ctx)
	return err
}

func awaitText(t *testing.T, pages []*livePage, text string) {
	t.Helper()
	natstest.Eventually(t, text, func(context.Context) error {
		for _, p := range pages {
			select {
			case err := <-p.done:
				t.Fatalf("%s: the response ends before %s with %v:\n%s", p.name, text, err, p)
			default:
			}
			if !strings.Contains(p.String(), text) {
				return fmt.Errorf("%s is missing in\n%s", p.name, p)
			}
		}
		return nil
	})
}
