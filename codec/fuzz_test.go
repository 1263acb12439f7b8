package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	ce "github.com/cloudevents/sdk-go/v2/event"

	"github.com/tailrace/tailrace/chunk"
)

// FuzzDecode: for any message on the subject of a session Decode does not panic. It returns an EnvelopeError, or a record on one line, whose type is that of
// the body, and which is the same after it is encoded and decoded.
func FuzzDecode(f *testing.F) {
	const source = "/acme/s1/s1-child"
	packed, _ := toMsgpack([]byte(body))
	f.Add("1.0", "3-17", source, "text_delta", "2026-01-01T00:00:00.000Z", mediaJSON, "ce-traceparent", "00-1", []byte(body))
	f.Add("1.0", "3-17", source, "text_delta", "", mediaMsgpack, "Nats-Msg-Id", "x", packed)
	f.Add("1.0", "3%2D17", source, `"text_delta"`, "", "text/json;charset=utf-8", "CE-DataContentType", mediaJSON, []byte(body+"\n"))
	f.Add("1.0", "1-1", source, "a b%20c", "", "", "ce-subject", "*", []byte(`{"type":"a b c"}`))
	f.Add("", "", "", "", "", "application/cloudevents+json", "", "", structured(`,"data":`+body))
	f.Add("", "", "", "", "", "", "", "", structured(`,"datacontenttype":"application/json","data":`+body))
	f.Add("", "", "", "", "", "", "", "", structured(`,"data_base64":"e30="`))
	f.Add("1.0", "0-0", "/", "x", "2026", ";", "ce-", "\x00", []byte(`{"type":"x","type":"y"}`))
	f.Fuzz(func(t *testing.T, version, id, source, typ, at, contentType, extName, extValue string, data []byte) {
		header := map[string][]string{}
		for name, value := range map[string]string{
			"ce-specversion": version, "ce-id": id, "ce-source": source, "ce-type": typ, "ce-time": at, "ce-datacontenttype": contentType,
		} {
			if value != "" {
				header[name] = []string{value}
			}
		}
		if extName != "" {
			header[extName] = append(header[extName], extValue)
		}
		checkBothWays(t, header)
		rec, err := Decode(Stored{Session: session, Seq: 1, Header: header, Data: data})
		if err != nil {
			if _, ok := errors.AsType[*EnvelopeError](err); !ok || strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("not an *EnvelopeError on one line: %q", err)
			}
			return
		}
		checkRecord(t, rec)
		if len(header) == 0 {
			checkAgainstSDK(t, rec, data)
		}
	})
}

// checkBothWays compares the fast path for headers with the general one.
func checkBothWays(t *testing.T, header map[string][]string) (short bool) {
	t.Helper()
	var fast, general event
	if !fast.readOwnHeaders(header) {
		return false
	}
	if err := general.readAny(header); err != nil || fast.attributes != general.attributes || fast.binary != general.binary {
		t.Fatalf("%q is read as %q, %v and as %q, %v: %v", header, fast.attributes, fast.binary, general.attributes, general.binary, err)
	}
	return true
}

// The fast path accepts the headers that Encode writes. It accepts no header that the general path would read differently or reject.
func TestFastPathReadsHeadersAsTheGeneralPath(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h map[string][]string)
		short  bool
	}{
		"as written": {func(map[string][]string) {}, true},
		"as stored":  {func(h map[string][]string) { h["Nats-Expected-Last-Subject-Sequence"] = []string{"7"} }, true},
		"stored in a batch": {func(h map[string][]string) {
			h["Nats-Batch-Id"], h["Nats-Batch-Sequence"] = []string{"x"}, []string{"2"}
		}, true},
		"without a time":       {func(h map[string][]string) { delete(h, "ce-time") }, true},
		"an encoded type":      {func(h map[string][]string) { h["ce-type"] = []string{"caf%C3%A9"} }, true},
		"none":                 {func(h map[string][]string) { clear(h) }, true},
		"an extension":         {func(h map[string][]string) { h["ce-traceparent"] = []string{"00"} }, false},
		"a position":           {func(h map[string][]string) { h["ce-inputposition"] = []string{"r1:17.2"} }, true},
		"no position":          {func(h map[string][]string) { h["ce-inputposition"] = []string{"r1"} }, false},
		"two positions":        {func(h map[string][]string) { h["ce-inputposition"] = []string{"r1:1", "r1:2"} }, false},
		"one of NATS":          {func(h map[string][]string) { h["Nats-TTL"] = []string{"1m"} }, false},
		"a name in capitals":   {func(h map[string][]string) { h["CE-ID"] = h["ce-id"] }, false},
		"a content type":       {func(h map[string][]string) { h["content-type"] = []string{mediaJSON} }, false},
		"two values":           {func(h map[string][]string) { h["ce-id"] = []string{"1-1", "1-2"} }, false},
		"no value":             {func(h map[string][]string) { h["ce-id"] = nil }, false},
		"an empty value":       {func(h map[string][]string) { h["ce-source"] = []string{""} }, false},
		"a value beyond bound": {func(h map[string][]string) { h["ce-time"] = []string{strings.Repeat("x", maxAttribute+1)} }, false},
	} {
		header := EncodeJSON(Envelope{Session: session, Epoch: 3, Ordinal: 17}, Header{Type: chunk.TypeTextDelta, Timestamp: 1700000000123}, nil).Header
		c.change(header)
		if short := checkBothWays(t, header); short != c.short {
			t.Errorf("%s: the short way %v, want %v", name, short, c.short)
		}
	}
}

func checkRecord(t *testing.T, rec chunk.Record) {
	t.Helper()
	if !isBodySlow(rec.Data) || bytes.ContainsAny(rec.Data, "\r\n") {
		t.Fatalf("no JSON object on one line: %q", rec.Data)
	}
	var b map[string]json.RawMessage
	if err := json.Unmarshal(rec.Data, &b); err != nil {
		t.Fatal(err)
	}
	var typ string
	if err := json.Unmarshal(b["type"], &typ); err != nil || typ == "" || typ != string(rec.Type) {
		t.Fatalf("type %q of %q (%v)", rec.Type, rec.Data, err)
	}
	if rec.Epoch == 0 || rec.Ordinal == 0 || rec.Session != session {
		t.Fatalf("got %+v", rec)
	}
	m := EncodeJSON(Envelope{Session: rec.Session, Epoch: rec.Epoch, Ordinal: rec.Ordinal}, Header{Type: rec.Type}, rec.Data)
	again, err := Decode(Stored{Session: session, Seq: rec.Seq, At: rec.StoredAt, Header: m.Header, Data: m.Data})
	if err != nil || again.Epoch != rec.Epoch || again.Ordinal != rec.Ordinal || again.Type != rec.Type || !bytes.Equal(again.Data, rec.Data) {
		t.Fatalf("%+v\ncame back as\n%+v, %v", rec, again, err)
	}
}

// checkAgainstSDK checks that the SDK, if it accepts a structured event, reads the same identity. It rejects some that Decode accepts: see readStructured.
func checkAgainstSDK(t *testing.T, rec chunk.Record, data []byte) {
	t.Helper()
	var e ce.Event
	if e.UnmarshalJSON(data) != nil || e.Context == nil {
		return
	}
	if e.ID() != chunk.EventID(rec.Epoch, rec.Ordinal) || e.Source() != rec.Session.String() || e.Type() != string(rec.Type) {
		t.Fatalf("the SDK sees %s %s %s in %q, we see %+v", e.ID(), e.Source(), e.Type(), data, rec)
	}
}
