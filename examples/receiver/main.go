// Command receiver prints a session of a Tailrace log with nothing but the CloudEvents SDK for Go: no package of Tailrace is
// linked.
//
//	go run ./examples/receiver nats://127.0.0.1:4422 tr.chunks.0.default.s1.s1
//
// It ends after the record that ends the session.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/client"
	"github.com/nats-io/nats.go"
)

const stream = "TR_CHUNKS_0"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: receiver NATS-URL SUBJECT")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := receive(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

func receive(ctx context.Context, url, subject string) error {
	consumer, err := cejetstream.NewConsumer(url, stream, subject, nil, nil, []nats.SubOpt{nats.DeliverAll(), nats.AckNone()})
	if err != nil {
		return err
	}
	// These options make the SDK handle one event at a time; by default it handles them concurrently.
	receiver, err := cloudevents.NewClient(consumer, client.WithPollGoroutines(1), client.WithBlockingCallback())
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	err = receiver.StartReceiver(ctx, func(event cloudevents.Event) {
		fmt.Printf("%s %s %-12s %s\n", event.Source(), event.ID(), event.Type(), event.Data())
		if event.Type() == "stream_end" || event.Type() == "stream_failed" {
			done()
		}
	})
	return errors.Join(err, consumer.Close(context.WithoutCancel(ctx)))
}
