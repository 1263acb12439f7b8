package codec_test

import (
	"context"
	"fmt"
	"log"
	"time"

	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

func Example() {
	session := chunk.RootSession("acme", "s1")
	c := chunk.Chunk{AgentID: "s1", AgentType: "demo", Timestamp: 1700000000123, Step: 1, Body: chunk.TextDelta{Delta: "Hello"}}

	msg, err := codec.Encode(codec.Envelope{Session: session, Epoch: 3, Ordinal: 17, Format: codec.FormatMsgpack}, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(msg.Header["ce-id"], msg.Header["ce-source"], msg.Header["ce-datacontenttype"], len(msg.Data), "bytes")

	// The reader has the message, its sequence and the time when it was stored.
	rec, err := codec.Decode(codec.Stored{Session: session, Seq: 4711, At: time.Now(), Header: msg.Header, Data: msg.Data})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rec.Seq, rec.Epoch, rec.Ordinal, rec.Type)
	fmt.Println(string(rec.Data))

	// Output:
	// [3-17] [/acme/s1/s1] [application/msgpack] 80 bytes
	// 4711 3 17 text_delta
	// {"type":"text_delta","agentId":"s1","agentType":"demo","timestamp":1700000000123,"step":1,"delta":"Hello"}
}

// A message of another session is malformed on the subject of this one.
func ExampleEnvelopeError() {
	msg := codec.EncodeJSON(codec.Envelope{Session: chunk.RootSession("acme", "s2"), Epoch: 1, Ordinal: 1},
		codec.Header{Type: chunk.TypeStreamEnd}, []byte(`{"type":"stream_end"}`))

	_, err := codec.Decode(codec.Stored{Session: chunk.RootSession("acme", "s1"), Seq: 1, Header: msg.Header, Data: msg.Data})
	fmt.Println(err)

	// Output:
	// event source "/acme/s2/s2": want /acme/s1/s1
}

// The CloudEvents SDK reads messages of Tailrace. (sdk_program_test.go has a program that follows a session with it.)
func Example_cloudEventsSDK() {
	msg := codec.EncodeJSON(codec.Envelope{Session: chunk.RootSession("acme", "s1"), Epoch: 3, Ordinal: 17},
		codec.Header{Type: chunk.TypeStreamEnd, Timestamp: 1700000000123}, []byte(`{"type":"stream_end"}`))

	raw := cejetstream.NewMessage(&nats.Msg{Header: msg.Header, Data: msg.Data})
	event, err := binding.ToEvent(context.Background(), raw)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.Source(), event.ID(), event.Type(), string(event.Data()))

	// Output:
	// /acme/s1/s1 3-17 stream_end {"type":"stream_end"}
}
