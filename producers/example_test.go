package producers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// A worker starts a run, writes the output of its model, and ends the run. Later one worker hangs in the middle of a run, and another one takes it over.
func Example() {
	ctx := context.Background()
	js, stop := startNATS(ctx)
	defer stop()
	producer, err := producers.New(js, producers.Config{Positions: producers.NoPositions})
	must(err)

	session := chunk.RootSession("acme", "s1")
	must(answer(ctx, producer, session))
	must(takeOver(ctx, producer, session))

	must(producer.Close())
	// Output:
	// epoch 1 has ended
	// epoch 2 is fenced: true
	// epoch 3 writes: true
}

func answer(ctx context.Context, producer *producers.Producer, session chunk.Session) error {
	run, err := producer.Start(ctx, session, chunk.RunStarted{
		Input: []chunk.InputMessage{{Content: "Greet me."}},
	}, producers.AgentType("greeter"))
	if err != nil {
		return err
	}
	for _, token := range []string{"Hel", "lo", "!"} {
		if err := run.EmitBody(ctx, chunk.TextDelta{Delta: token}); err != nil {
			return err
		}
	}
	if err := run.End(ctx, nil); err != nil {
		return err
	}
	fmt.Println("epoch", run.Epoch(), "has ended") // and everything is stored
	return run.Close()
}

func takeOver(ctx context.Context, producer *producers.Producer, session chunk.Session) error {
	hangs, err := producer.Start(ctx, session, chunk.RunStarted{})
	if err != nil {
		return err
	}
	next, err := producer.Start(ctx, session, chunk.RunStarted{Mode: "takeover"})
	if err != nil {
		return err
	}
	_, err = hangs.Write(ctx, chunk.Chunk{Body: chunk.TextDelta{Delta: "I am still here"}})
	fmt.Println("epoch", hangs.Epoch(), "is fenced:", errors.Is(err, chunk.ErrFenced))

	err = next.EmitBody(ctx, chunk.TextDelta{Delta: "Me instead."})
	fmt.Println("epoch", next.Epoch(), "writes:", err == nil)
	return next.End(ctx, nil)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// startNATS starts a server in this process with the streams of Tailrace, and connects to it.
func startNATS(ctx context.Context) (jetstream.JetStream, func()) {
	dir, err := os.MkdirTemp("", "tailrace")
	must(err)
	server, err := embed.Start(ctx, embed.Config{StoreDir: dir, Log: slog.New(slog.DiscardHandler)})
	must(err)
	nc, err := nats.Connect("", server.InProcess())
	must(err)
	js, err := jetstream.New(nc)
	must(err)
	must(topology.Ensure(ctx, js, topology.Config{}))
	return js, func() {
		nc.Close()
		must(server.Shutdown(ctx))
		must(os.RemoveAll(dir))
	}
}
