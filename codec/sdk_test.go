package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	cenats "github.com/cloudevents/sdk-go/protocol/nats/v2"
	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	ce "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const (
	testStream  = "TR_CHUNKS_0"
	testSubject = "tr.chunks.0.acme.s1.s1-child"
)

// wire is a stream with a writer and a reader.
type wire struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	arrived jetstream.MessagesContext
}

func newWire(t *testing.T) wire {
	t.Helper()
	nc := natstest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name:     testStream,
		Subjects: []string{"tr.chunks.0.*.*.*"},
		Storage:  jetstream.MemoryStorage,
	})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.OrderedConsumer(t.Context(), testStream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{testSubject}})
	if err != nil {
		t.Fatal(err)
	}
	arrived, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(arrived.Stop)
	return wire{nc: nc, js: js, arrived: arrived}
}

func (w wire) publish(t *testing.T, m Encoded) {
	t.Helper()
	_, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: testSubject, Header: m.Header, Data: m.Data})
	if err != nil {
		t.Fatal(err)
	}
}

// next waits for the next message of the stream and decodes it.
func (w wire) next(t *testing.T) (chunk.Record, error) {
	t.Helper()
	m, err := w.arrived.Next()
	if err != nil {
		t.Fatal(err)
	}
	meta, err := m.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return Decode(Stored{Session: session, Seq: chunk.Seq(meta.Sequence.Stream), At: meta.Timestamp, Header: m.Headers(), Data: m.Data()})
}

// The SDK's JetStream receiver reads the messages that Encode writes.
func TestSDKReadsEncodedMessages(t *testing.T) {
	w := newWire(t)
	consumer, err := cejs.NewConsumerFromConn(w.nc, testStream, testSubject, nil, []nats.SubOpt{nats.BindStream(testStream)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.OpenInbound(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	for i, c := range everyChunk(t) {
		for _, format := range []Format{FormatJSON, FormatMsgpack} {
			m, err := Encode(Envelope{Session: session, Epoch: 3, Ordinal: chunk.Ordinal(i + 1), Format: format}, c)
			if err != nil {
				t.Fatal(err)
			}
			w.publish(t, m)
			msg, err := consumer.Receive(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got, err := binding.ToEvent(ctx, msg)
			if err != nil {
				t.Fatal(err)
			}
			checkEvent(t, got, c, chunk.EventID(3, chunk.Ordinal(i+1)), m)
		}
	}
}

func checkEvent(t *testing.T, got *ce.Event, c chunk.Chunk, id string, m Encoded) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Errorf("%s: %v", c.Type(), err)
	}
	want := map[string]any{
		"specversion": "1.0", "id": id, "source": session.String(), "type": string(c.Type()),
		"subject": "", "dataschema": "", "datacontenttype": m.Header["ce-datacontenttype"][0],
		"time": time.UnixMilli(c.Timestamp).UTC(), "data": string(m.Data), "extensions": 0,
	}
	if have := attributesOf(got); !reflect.DeepEqual(have, want) {
		t.Errorf("%s:\n got %v\nwant %v", c.Type(), have, want)
	}
}

func attributesOf(e *ce.Event) map[string]any {
	return map[string]any{
		"specversion": e.SpecVersion(), "id": e.ID(), "source": e.Source(), "type": e.Type(),
		"subject": e.Subject(), "dataschema": e.DataSchema(), "datacontenttype": e.DataContentType(),
		"time": e.Time().UTC(), "data": string(e.Data()), "extensions": len(e.Extensions()),
	}
}

// The fast path writes the same attributes as the SDK, except that the time always has three digits of milliseconds.
func TestHotPathWritesAsTheSDK(t *testing.T) {
	for i, c := range everyChunk(t) {
		body, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := EncodeJSON(Envelope{Session: session, Epoch: 7, Ordinal: chunk.Ordinal(i + 1)}, Header{Type: c.Type(), Timestamp: c.Timestamp}, body)
		var data bytes.Buffer
		want, err := cejs.WriteMsg(t.Context(), binding.ToMessage(newEvent(c, 7, chunk.Ordinal(i+1), body)), &data)
		if err != nil {
			t.Fatal(err)
		}
		want["ce-time"] = []string{withMillis(t, want.Get("ce-time"))}
		if !reflect.DeepEqual(map[string][]string(want), got.Header) {
			t.Errorf("%s:\nours   %v\ntheirs %v", c.Type(), got.Header, want)
		}
	}
}

func withMillis(t *testing.T, s string) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at.Format("2006-01-02T15:04:05.000Z07:00")
}

// newEvent returns an event as a user of the SDK creates it.
func newEvent(c chunk.Chunk, e chunk.Epoch, o chunk.Ordinal, body []byte) *ce.Event {
	ev := ce.New()
	ev.SetID(chunk.EventID(e, o))
	ev.SetSource(session.String())
	ev.SetType(string(c.Type()))
	ev.SetTime(time.UnixMilli(c.Timestamp))
	ev.SetDataContentType(mediaJSON)
	ev.DataEncoded = body
	return &ev
}

// sender is the common interface of the SDK's two NATS protocols.
type sender interface {
	Send(ctx context.Context, m binding.Message, transformers ...binding.Transformer) error
}

// Decode reads the messages that the SDK writes: over JetStream in both modes, over core NATS (structured mode only, without a header), with data as JSON, as
// base64 and as msgpack. In structured mode the SDK escapes and compacts the JSON; the value is the same.
func TestDecodeReadsSDKMessages(t *testing.T) {
	w := newWire(t)
	overJetStream, err := cejs.NewSenderFromConn(w.nc, testStream, testSubject, nil)
	if err != nil {
		t.Fatal(err)
	}
	overCore, err := cenats.NewSenderFromConn(w.nc, testSubject)
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]struct {
		sender sender
		mode   func(context.Context) context.Context
	}{
		"binary over JetStream":     {overJetStream, binding.WithForceBinary},
		"structured over JetStream": {overJetStream, binding.WithForceStructured},
		"structured over core NATS": {overCore, binding.WithForceStructured},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for i, c := range everyChunk(t) {
				w.readsBack(t, way.sender, way.mode(t.Context()), c, chunk.Ordinal(i+1))
			}
		})
	}
}

func (w wire) readsBack(t *testing.T, s sender, ctx context.Context, c chunk.Chunk, o chunk.Ordinal) {
	t.Helper()
	body, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"json", "base64", "msgpack"} {
		ev := newEvent(c, 5, o, body)
		ev.DataBase64 = form != "json"
		if form == "msgpack" {
			packed, ok := toMsgpack(body)
			if !ok {
				continue // a value that msgpack cannot represent: see TestMsgpackFallsBack
			}
			ev.SetDataContentType(mediaMsgpack)
			ev.DataEncoded = packed
		}
		if err := s.Send(ctx, binding.ToMessage(ev)); err != nil {
			t.Fatal(err)
		}
		rec, err := w.next(t)
		if err != nil {
			t.Fatalf("%s %s: %v", c.Type(), form, err)
		}
		if rec.Type != c.Type() || rec.Epoch != 5 || rec.Ordinal != o || tokensOf(t, rec.Data) != tokensOf(t, body) {
			t.Errorf("%s %s:\n got %+v %s\nwant %s", c.Type(), form, rec, rec.Data, body)
		}
	}
}

// A type with any characters is unchanged after a real server has stored it in headers.
func TestTypesWithAnyCharactersAreStored(t *testing.T) {
	w := newWire(t)
	for _, typ := range []string{"x", "with space", " edges ", "größe", "100%", "100%25", `"quoted"`, `a"b`, `back\slash`, "emoji😀", "a%20b c", "CR\u2028LF", "a:b", "%zz", "%E2%82", "x;y=z", "<&>"} {
		quoted, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"agentId":"s1","type":` + string(quoted) + `}`
		w.publish(t, EncodeJSON(Envelope{Session: session, Epoch: 1, Ordinal: 1}, Header{Type: chunk.Type(typ)}, []byte(body)))
		rec, err := w.next(t)
		if err != nil || string(rec.Type) != typ || string(rec.Data) != body {
			t.Errorf("%q came back as %q %s: %v", typ, rec.Type, rec.Data, err)
		}
	}
}
