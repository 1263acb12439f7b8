package codec

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// printSession reads a session with the CloudEvents SDK and without a package of this module.
func printSession(ctx context.Context, nc *nats.Conn, subject string, out io.Writer) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, "TR_CHUNKS_0", jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		raw := cejetstream.NewMessage(&nats.Msg{Header: m.Headers(), Data: m.Data()})
		event, err := binding.ToEvent(ctx, raw)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, event.ID(), event.Type(), string(event.Data()))
		if event.Type() == "stream_end" || event.Type() == "stream_failed" {
			return nil
		}
	}
}

func TestSDKReadsSession(t *testing.T) {
	w := newWire(t)
	w.publish(t, EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 1}, Header{Type: chunk.TypeTextDelta}, []byte(body)))
	w.publish(t, EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 2}, Header{Type: chunk.TypeStreamEnd}, []byte(`{"type":"stream_end"}`)))
	var out strings.Builder
	if err := printSession(t.Context(), w.nc, testSubject, &out); err != nil {
		t.Fatal(err)
	}
	if want := "1-1 text_delta " + body + "\n1-2 stream_end {\"type\":\"stream_end\"}\n"; out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}
