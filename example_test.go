package tailrace_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/workers"
)

// A program with a NATS server of its own runs an agent, starts a session, and follows it until its end.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "tailrace")
	check(err)
	defer os.RemoveAll(dir)
	server, js := startServer(ctx, dir)
	tr, err := tailrace.Open(ctx, js, tailrace.Config{Create: true})
	check(err)
	tr.Agent("support", workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			return s.Text(ctx, "You said: "+t.Input()[0].Content)
		})
	}))
	ran := make(chan error)
	go func() { ran <- tr.Run(ctx) }()

	_, err = tr.Start(ctx, "s1", "support", "hello")
	check(err)
	for rec, err := range tr.Follow(ctx, "s1", chunk.Position{}) {
		check(err)
		c, err := rec.Decode()
		check(err)
		if delta, ok := chunk.As[chunk.TextDelta](c); ok {
			fmt.Println(delta.Delta)
		}
	}
	stop()
	check(<-ran)
	check(tr.Close())
	js.Conn().Close()
	check(server.Shutdown(context.Background()))
	// Output: You said: hello
}

// startServer starts a server in this process, with its files in dir.
func startServer(ctx context.Context, dir string) (*embed.Server, jetstream.JetStream) {
	server, err := embed.Start(ctx, embed.Config{StoreDir: dir})
	check(err)
	nc, err := nats.Connect("", server.InProcess())
	check(err)
	js, err := jetstream.New(nc)
	check(err)
	return server, js
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
