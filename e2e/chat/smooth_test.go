//go:build e2e && record

package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

// TestRecordSmoothness prints the times between two frames in which the example shows more text, and from the click to the first one, for agents with
// several speeds. The sides take turns: a server that streams each token without a log, and Tailrace with several values of workers.Config.Pace.
//
//	go test -tags e2e,record -count=1 -run '^TestRecordSmoothness$' -v ./e2e/chat
func TestRecordSmoothness(t *testing.T) {
	const turns, length = 5, 8
	browser, built := browsertest.Start(t), newApp(t, 7).build(t)
	for _, perSecond := range []int{20, 50, 150} {
		t.Run(fmt.Sprint(perSecond, " a second"), func(t *testing.T) {
			agent := speaker{tokens: perSecond * length, every: time.Second / time.Duration(perSecond)}
			sides := []*side{{name: "without a log", url: serveBare(t, built, agent)}}
			for _, pace := range []time.Duration{producers.Off, 10 * time.Millisecond, 60 * time.Millisecond} {
				sides = append(sides, &side{name: fmt.Sprint("pace ", max(pace, 0)), url: serveSpeaker(t, built, agent, pace)})
			}
			for turn := range turns {
				for _, s := range sides {
					shown := agent.watch(openPage(t, browser, s.url, fmt.Sprint("smooth-", turn)))
					s.first = append(s.first, shown[0])
					for k := range shown[1:] {
						s.gaps = append(s.gaps, shown[k+1]-shown[k])
					}
				}
			}
			for _, s := range sides {
				slices.Sort(s.first)
				slices.Sort(s.gaps)
				at := func(percent int) float64 { return s.gaps[(len(s.gaps)-1)*percent/100] }
				t.Logf("%s: %d gaps, p50 %.0f, p95 %.0f, p99 %.0f, longest %.0f ms; first text after %.0f ms (%.0f to %.0f)",
					s.name, len(s.gaps), at(50), at(95), at(99), at(100), s.first[turns/2], s.first[0], s.first[turns-1])
			}
		})
	}
}

// side is one way to get the text to the page.
type side struct {
	name, url string
	first     []float64 // ms from the click to the first text
	gaps      []float64 // ms between two frames with more text
}

// speaker is an agent that emits tokens at a constant speed.
type speaker struct {
	tokens int
	every  time.Duration
}

const spoken = "word "

func (s speaker) Answer(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		step.MarkFinal()
		return s.speak(ctx, func() error { return step.Text(ctx, spoken) })
	})
}

// speak calls say for each token when it is due.
func (s speaker) speak(ctx context.Context, say func() error) error {
	began := time.Now()
	for n := range s.tokens {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(n) * s.every))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := say(); err != nil {
			return err
		}
	}
	return nil
}

// serveBare starts a server that streams the tokens to the app as they come, and returns its URL.
func serveBare(t *testing.T, app string, s speaker) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", uncached(http.FileServer(http.Dir(app))))
	mux.HandleFunc("GET /api/chat/{id}/stream", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /api/chat/{id}/snapshot", http.NotFound)
	mux.HandleFunc("POST /api/chat", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(event string) error {
			if _, err := fmt.Fprintf(w, "data: %s\nid: 1\n\n", event); err != nil {
				return err
			}
			return http.NewResponseController(w).Flush()
		}
		err := errors.Join(send(`{"type":"start"}`), send(`{"type":"text-start","id":"t"}`))
		if err == nil {
			err = s.speak(r.Context(), func() error { return send(fmt.Sprintf(`{"type":"text-delta","id":"t","delta":%q}`, spoken)) })
		}
		if err = errors.Join(err, send(`{"type":"text-end","id":"t"}`), send(`{"type":"finish"}`), send("[DONE]")); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// serveSpeaker starts a server, a worker with the agent, and an edge that also serves the built app, and returns its URL.
func serveSpeaker(t *testing.T, app string, agent speaker, pace time.Duration) string {
	t.Helper()
	w := stack.Start(t, stack.Options{})
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: map[string]workers.Agent{"assistant": agent}, Pace: pace})
	if err != nil {
		t.Fatal(err)
	}
	p.Go(worker.Run)
	clients := stack.NewClients(t, w.NewProcess(natsauth.Edge).JS)
	edge, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{Authenticator: authtest.None(t, "default")})
	if err != nil {
		t.Fatal(err)
	}
	logic, err := runs.New(clients.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"assistant"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chat.New(edge, logic, chat.Config{}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", uncached(http.FileServer(http.Dir(app))))
	mux.Handle("/api/", edge)
	mux.Handle("/v1/", edge)
	return w.Serve(mux, edge.Run).URL
}

// watch sends a message and returns the times of the frames with more text until all is shown, in milliseconds after the click.
func (s speaker) watch(p *page) (shown []float64) {
	p.t.Helper()
	p.write("go")
	p.await(`document.querySelector('#send')?.disabled === false`)
	times := eval[string](p, fmt.Sprintf(`new Promise((done) => {
		const text = () => document.querySelector('.message[data-role="assistant"] .text')?.textContent.length ?? 0;
		const shown = [];
		let due = false, length = 0;
		new MutationObserver(() => {
			if (due || text() === length) return;
			due = true;
			requestAnimationFrame(() => {
				due = false;
				length = text();
				shown.push(performance.now() - clicked);
				if (length === %d) done(JSON.stringify(shown));
			});
		}).observe(document.body, { subtree: true, childList: true, characterData: true });
		const clicked = performance.now();
		document.querySelector('#send').click();
	})`, s.tokens*len(spoken)))
	if err := json.Unmarshal([]byte(times), &shown); err != nil {
		p.t.Fatal(err)
	}
	p.awaitStatus("ready")
	return shown
}
