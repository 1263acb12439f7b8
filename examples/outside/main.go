// Command outside uses Tailrace from a module of its own, with public packages alone: it creates the streams, writes a session and follows it, serves an agent
// and starts a run of it, and serves events and chats over HTTP. Its go.mod has what an import costs: no NATS server and no model client.
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
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/runs"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/topology"
	"github.com/tailrace/tailrace/workers"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: outside NATS-URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if err := topology.Ensure(ctx, js, topology.Config{}); err != nil {
		return err
	}
	written := chunk.RootSession("default", "written")
	if err := write(ctx, js, written); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		return err
	}
	if err := follow(ctx, reader, written); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	w, err := workers.New(js, workers.Config{Agents: map[string]workers.Agent{"support": workers.AgentFunc(support)}})
	if err != nil {
		return err
	}
	client, err := runs.New(js, runs.Config{AgentTypes: []string{"support"}})
	if err != nil {
		return err
	}
	edge, err := newEdge(reader, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	var workerErr, edgeErr error
	background.Go(func() { workerErr = w.Run(ctx) })
	background.Go(func() { edgeErr = edge.Run(ctx) })
	err = errors.Join(start(ctx, client, chunk.RootSession("default", "started")), serve(ctx, edge, written))
	cancel()
	background.Wait()
	return errors.Join(err, workerErr, edgeErr)
}

// write writes a session with one run.
func write(ctx context.Context, js jetstream.JetStream, s chunk.Session) error {
	producer, err := producers.New(js, producers.Config{Positions: producers.NoPositions})
	if err != nil {
		return err
	}
	run, err := producer.Start(ctx, s, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	if err := run.EmitBody(ctx, chunk.TextDelta{Delta: "Hello, world"}); err != nil {
		return err
	}
	if err := run.End(ctx, nil); err != nil { // nil: every chunk is stored
		return err
	}
	return producer.Close()
}

// follow prints the text of a session until it ends.
func follow(ctx context.Context, reader *consumers.Reader, s chunk.Session) error {
	for rec, err := range reader.Follow(ctx, chunk.Range{Session: s}) {
		if err != nil {
			return err
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

// support is an agent that repeats its input.
func support(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		s.MarkFinal()
		return s.Text(ctx, "You said: "+t.Input()[0].Content)
	})
}

// start requests a run of the agent and waits until it is complete.
func start(ctx context.Context, client *runs.Client, s chunk.Session) error {
	_, err := client.Start(ctx, runs.Start{Session: s, AgentType: "support", Input: []chunk.InputMessage{{Content: "hello"}}})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	for {
		status, err := client.Status(ctx, s)
		if err != nil {
			return fmt.Errorf("status: %w", err)
		}
		if status.Phase != runs.PhaseRunning {
			fmt.Println("run", status.Phase)
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// newEdge returns an edge that serves event streams and chats.
func newEdge(reader *consumers.Reader, client *runs.Client) (*sseedge.Edge, error) {
	none, err := auth.NewNone("default") // every client that reaches the listener on loopback has all rights
	if err != nil {
		return nil, err
	}
	edge, err := sseedge.New(reader, client.Snapshots(), sseedge.Config{Authenticator: none, Host: sseedge.LoopbackHost})
	if err != nil {
		return nil, err
	}
	_, err = chat.New(edge, client.Service(), chat.Config{})
	return edge, err
}

// serve serves the edge while clients read the events of a session, its snapshot, and the answer to a message.
func serve(ctx context.Context, edge *sseedge.Edge, s chunk.Session) error {
	listener, err := sseedge.Listen(ctx, "127.0.0.1:0", 0)
	if err != nil {
		return err
	}
	server := sseedge.NewServer(sseedge.ServerConfig{}, edge)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	err = errors.Join(
		read(ctx, http.MethodGet, url+"/v1/sessions/"+s.ID+"/events", ""),
		read(ctx, http.MethodGet, url+"/v1/sessions/"+s.ID+"/snapshot", ""),
		read(ctx, http.MethodPost, url+"/api/chat", `{"id":"c1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"good morning"}]}]}`),
	)
	err = errors.Join(err, edge.Drain(ctx), server.Shutdown(ctx))
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
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
