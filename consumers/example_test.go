package consumers_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
)

func connect() *consumers.Reader {
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		log.Fatal(err)
	}
	return reader
}

// Show an answer as it is written, from its beginning to its end.
func ExampleReader_Follow() { //nolint:testableexamples // it would need a server at a known address; it is compiled
	ctx := context.Background()
	session := chunk.RootSession("acme", "s1")
	var last chunk.Position
	for rec, err := range connect().Follow(ctx, chunk.Range{Session: session, After: last}) {
		switch {
		case errors.Is(err, chunk.ErrTruncated):
			fmt.Println("start again from a snapshot:", err)
		case errors.Is(err, chunk.ErrFailed):
			fmt.Println("the agent failed:", err)
		case err != nil:
			fmt.Println("NATS:", err)
		default:
			fmt.Printf("%s\n", rec.Data)
			last = rec.Position()
		}
	}
	fmt.Println("after a restart, continue after", last)
}

// Read a session with all its sub-agents again, up to a sequence.
func ExampleReader_Replay() { //nolint:testableexamples // it would need a server at a known address; it is compiled
	ctx := context.Background()
	root := chunk.RootSession("acme", "s1")
	for rec, err := range connect().Replay(ctx, chunk.Range{Session: root, Tree: true, Through: 1042}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Seq, rec.Session.ID, rec.Type)
	}
}

// Divide a partition among the sessions that have clients. A message of another session
// costs one look into a map.
func ExampleReader_Feed() { //nolint:testableexamples // it would need a server at a known address; it is compiled
	ctx := context.Background()
	watched := map[chunk.Session]func(chunk.Record){}
	for msg, err := range connect().Feed(ctx, 0, consumers.SeqLatest) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if deliver := watched[msg.Session]; deliver != nil {
			if rec, err := codec.Decode(msg); err == nil {
				deliver(rec)
			}
		}
	}
}

// Copy the ends of all runs into a ledger, at least once and in order.
func ExampleFirehose_Run() { //nolint:testableexamples // it would need a server at a known address; it is compiled
	ctx := context.Background()
	firehose, err := connect().Firehose(consumers.FirehoseConfig{
		Name:  "ledger",
		Types: []chunk.Type{chunk.TypeStreamEnd, chunk.TypeStreamFailed},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = firehose.Run(ctx, func(_ context.Context, rec chunk.Record) error {
		fmt.Printf("%s %d-%d %s\n", rec.Session, rec.Epoch, rec.Ordinal, rec.Type)
		return nil // from here on it is not delivered again, unless this program dies before the acknowledgement
	})
	fmt.Println("stopped:", err)
}
