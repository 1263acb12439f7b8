// Command outside uses Tailrace from a module of its own, with public packages alone: it opens the streams, serves an agent, and events and chats over HTTP, in one
// process. Meanwhile it writes a session and follows it, starts a run of the agent, and is its own browser. Its go.mod has what an import costs: no NATS server and
// no model client.
//
//	go run . nats://127.0.0.1:4222
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/workers"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: outside NATS-URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	nc, err := nats.Connect(os.Args[1])
	check(err)
	js, err := jetstream.New(nc)
	check(err)

	tr, err := tailrace.Open(ctx, js, tailrace.Config{Create: true})
	check(err)
	tr.Agent("support", workers.AgentFunc(support))
	handler, err := tr.Handler(tailrace.Loopback(), tailrace.Options{ChatAgents: []string{"support"}})
	check(err)
	go serve(ctx, tr, handler, stop) // point useChat at /api/chat
	check(tr.Run(ctx))

	check(tr.Close())
	nc.Close()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(1)
	}
}

// support is an agent that repeats its input.
func support(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		s.MarkFinal()
		return s.Text(ctx, "You said: "+t.Input()[0].Content)
	})
}

// use writes a session, and has the agent answer another one.
func use(ctx context.Context, tr *tailrace.Tailrace) error {
	run, err := tr.Write(ctx, "written", chunk.RunStarted{})
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := run.EmitBody(ctx, chunk.TextDelta{Delta: "Hello, world"}); err != nil {
		return err
	}
	if err := errors.Join(run.End(ctx, nil), run.Close()); err != nil { // nil from End: every chunk is stored
		return err
	}
	if err := show(ctx, tr, "written"); err != nil {
		return err
	}
	if _, err := tr.Start(ctx, "started", "support", "hello"); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := show(ctx, tr, "started"); err != nil {
		return err
	}
	status, err := tr.Status(ctx, "started")
	fmt.Println("run", status.Phase)
	return err
}

// show prints the text of a session until it is complete.
func show(ctx context.Context, tr *tailrace.Tailrace, id string) error {
	for rec, err := range tr.Follow(ctx, id, chunk.Position{}) {
		if err != nil {
			return fmt.Errorf("follow %s: %w", id, err)
		}
		c, err := rec.Decode()
		if err != nil {
			return err
		}
		if delta, ok := chunk.As[chunk.TextDelta](c); ok {
			fmt.Println("record", rec.Ordinal, delta.Delta)
		}
	}
	return nil
}

// serve serves the handler. Meanwhile this program writes and follows sessions, and clients read the events of one, its snapshot, and the answer to a message.
func serve(ctx context.Context, tr *tailrace.Tailrace, handler http.Handler, stop func()) {
	defer stop()
	listener, err := sseedge.Listen(ctx, "127.0.0.1:0", 0)
	check(err)
	server := sseedge.NewServer(sseedge.ServerConfig{}, handler)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	check(use(ctx, tr))
	check(read(ctx, http.MethodGet, url+"/v1/sessions/written/events", ""))
	check(read(ctx, http.MethodGet, url+"/v1/sessions/written/snapshot", ""))
	check(read(ctx, http.MethodPost, url+"/api/chat", `{"id":"c1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"good morning"}]}]}`))
	check(server.Shutdown(ctx))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		check(err)
	}
}

// read sends a request and prints the texts in the response.
func read(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, text), err)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var event struct {
			Delta string `json:"delta"`
			Chunk struct {
				Delta string `json:"delta"`
			} `json:"chunk"`
			Status string `json:"status"`
		}
		data := strings.TrimPrefix(lines.Text(), "data: ")
		if json.Unmarshal([]byte(data), &event) != nil {
			continue
		}
		if text := cmp.Or(event.Delta, event.Chunk.Delta, event.Status); text != "" {
			fmt.Println(method, req.URL.Path, text)
		}
	}
	return lines.Err()
}
