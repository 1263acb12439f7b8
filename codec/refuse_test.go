package codec

import (
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

var session = chunk.Session{Tenant: "acme", Root: "s1", ID: "s1-child"}

const body = `{"type":"text_delta","agentId":"s1","agentType":"demo","timestamp":1700000000123,"step":1,"delta":"Hello, wörld"}`

func goodHeader() map[string][]string {
	return EncodeJSON(Envelope{Session: session, Epoch: 3, Ordinal: 17}, Header{Type: chunk.TypeTextDelta, Timestamp: 1700000000123}, nil).Header
}

// with returns a valid header with some entries replaced; nil removes an entry.
func with(changes map[string][]string) map[string][]string {
	h := goodHeader()
	maps.Copy(h, changes)
	maps.DeleteFunc(h, func(_ string, values []string) bool { return values == nil })
	return h
}

// wantRefusal checks that an error names the attribute and is short.
func wantRefusal(t *testing.T, err error, attribute string) {
	t.Helper()
	var refused *EnvelopeError
	if !errors.As(err, &refused) {
		t.Fatalf("err = %v, want an *EnvelopeError about %s", err, attribute)
	}
	if refused.Attribute != attribute || refused.Want == "" {
		t.Errorf("%v: attribute %q, want %q", err, refused.Attribute, attribute)
	}
	if len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\r\n\x00") {
		t.Errorf("not one short line: %q", err)
	}
}

func TestBinaryModeRefusals(t *testing.T) {
	one := func(s string) []string { return []string{s} }
	for name, tc := range map[string]struct {
		changes   map[string][]string
		attribute string
	}{
		"C01 no specversion":             {map[string][]string{"ce-specversion": nil}, "specversion"},
		"C02 specversion 0.3":            {map[string][]string{"ce-specversion": one("0.3")}, "specversion"},
		"C04 empty id":                   {map[string][]string{"ce-id": one("")}, "id"},
		"C05 newline in the id":          {map[string][]string{"ce-id": one("1-2\n")}, "id"},
		"C06 id of 64 kB":                {map[string][]string{"ce-id": one(strings.Repeat("1", 64<<10))}, "id"},
		"no id":                          {map[string][]string{"ce-id": nil}, "id"},
		"id without ordinal":             {map[string][]string{"ce-id": one("3")}, "id"},
		"id with leading zero":           {map[string][]string{"ce-id": one("3-017")}, "id"},
		"id beyond 64 bits":              {map[string][]string{"ce-id": one("3-18446744073709551616")}, "id"},
		"id with epoch 0":                {map[string][]string{"ce-id": one("0-1")}, "id"},
		"C07 no source":                  {map[string][]string{"ce-source": nil}, "source"},
		"C08 source of another session":  {map[string][]string{"ce-source": one("/acme/s1/s1")}, "source"},
		"source with another segment":    {map[string][]string{"ce-source": one("/acme/s1/s1-child/x")}, "source"},
		"source cut short":               {map[string][]string{"ce-source": one("/acme/s1")}, "source"},
		"source without slash":           {map[string][]string{"ce-source": one("acme/s1/s1-child")}, "source"},
		"C09 no type":                    {map[string][]string{"ce-type": nil}, "type"},
		"type of another body":           {map[string][]string{"ce-type": one("text_end")}, "data"},
		"type of 2 kB":                   {map[string][]string{"ce-type": one(strings.Repeat("t", 2000))}, "type"},
		"C10 CRLF in an extension":       {map[string][]string{"ce-ext": one("a\r\nb")}, "ext"},
		"C23 control in the type":        {map[string][]string{"ce-type": one("text\x01delta")}, "type"},
		"C23 C1 control in an extension": {map[string][]string{"ce-ext": one("a\u0085b")}, "ext"},
		"C24 noncharacter":               {map[string][]string{"ce-ext": one("a\uFFFEb")}, "ext"},
		"extension in invalid UTF-8":     {map[string][]string{"ce-ext": one("a\xFFb")}, "ext"},
		"C11 time in words":              {map[string][]string{"ce-time": one("yesterday")}, "time"},
		"C12 year 99999":                 {map[string][]string{"ce-time": one("99999-01-01T00:00:00Z")}, "time"},
		"time without zone":              {map[string][]string{"ce-time": one("2026-01-01T00:00:00")}, "time"},
		"time with a short hour":         {map[string][]string{"ce-time": one("2026-01-01T5:00:00Z")}, "time"},
		"time with a long offset":        {map[string][]string{"ce-time": one("2026-01-01T05:00:00+24:00")}, "time"},
		"time with comma":                {map[string][]string{"ce-time": one("2026-01-01T00:00:00,5Z")}, "time"},
		"C13 dash in an extension":       {map[string][]string{"ce-my-ext": one("x")}, "my-ext"},
		"extension without name":         {map[string][]string{"ce-": one("x")}, ""},
		"extension of control":           {map[string][]string{"ce-\r": one("x")}, `"\r"`},
		"long extension":                 {map[string][]string{"ce-ext": one(strings.Repeat("x", 2000))}, "ext"},
		"C17 bad media type":             {map[string][]string{"ce-datacontenttype": one("json/;;")}, "datacontenttype"},
		"text as data":                   {map[string][]string{"ce-datacontenttype": one("text/plain")}, "datacontenttype"},
		"UTF-16":                         {map[string][]string{"ce-datacontenttype": one("application/json; charset=utf-16")}, "datacontenttype"},
		"JSON declared as msgpack":       {map[string][]string{"ce-datacontenttype": one(mediaMsgpack)}, "data"},
		"content types that differ":      {map[string][]string{"content-type": one(mediaMsgpack)}, "datacontenttype"},
		"C19 control in the subject":     {map[string][]string{"ce-subject": one("a\x00")}, "subject"},
		"C25 id twice":                   {map[string][]string{"ce-id": {"3-17", "3-17"}}, "id"},
		"C41 id in two spellings":        {map[string][]string{"CE-ID": one("3-17")}, "id"},
		"id without value":               {map[string][]string{"ce-id": {}}, "id"},
		"content-type twice":             {map[string][]string{"content-type": one(mediaJSON), "Content-Type": one(mediaJSON)}, "content-type"},
		"C40 binary without version":     {map[string][]string{"ce-specversion": nil, "ce-time": nil}, "specversion"},
		"C42 escaped CRLF":               {map[string][]string{"ce-ext": one("a%0D%0Ab")}, "ext"},
		"C43 both modes":                 {map[string][]string{"content-type": one("application/cloudevents+json")}, "datacontenttype"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(Stored{Session: session, Seq: 1, Header: with(tc.changes), Data: []byte(body)})
			wantRefusal(t, err, tc.attribute)
		})
	}
}

func TestBinaryModeTakes(t *testing.T) {
	one := func(s string) []string { return []string{s} }
	for name, changes := range map[string]map[string][]string{
		"no content type is JSON":         {"ce-datacontenttype": nil},
		"a charset":                       {"ce-datacontenttype": one("Application/JSON; charset=UTF-8")},
		"it in the transport's header":    {"ce-datacontenttype": nil, "content-type": one(mediaJSON)},
		"both content types":              {"content-type": one(mediaJSON)},
		"another case":                    {"ce-id": nil, "Ce-Id": one("3-17"), "ce-datacontenttype": nil, "CE-DataContentType": one("text/json")},
		"percent-encoded":                 {"ce-id": one("3%2D17"), "ce-type": one("text%5fdelta"), "ce-source": one("%2Facme/s1/s1-child")},
		"quoted, as older writers do":     {"ce-id": one(`"3-17"`), "ce-type": one(`"text_delta"`), "ce-source": one(`"\/acme/s1/s1-child"`)},
		"no time":                         {"ce-time": nil},
		"time with offset":                {"ce-time": one("2026-01-01T00:00:00.123456789+01:00")},
		"C19 wildcards in the subject":    {"ce-subject": one("a.*.>")},
		"C20 dataschema of an inner host": {"ce-dataschema": one("http://169.254.169.254/")},
		"C22 malformed traceparent":       {"ce-traceparent": one("nonsense")},
		"NATS headers":                    {"Nats-Expected-Last-Subject-Sequence": one("16"), "Nats-Odd": {}},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := Decode(Stored{Session: session, Seq: 1, Header: with(changes), Data: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Epoch != 3 || rec.Ordinal != 17 || rec.Type != chunk.TypeTextDelta || string(rec.Data) != body {
				t.Errorf("got %+v", rec)
			}
		})
	}
}

func structured(members string) []byte {
	return []byte(`{"specversion":"1.0","id":"3-17","source":"/acme/s1/s1-child","type":"text_delta"` + members + `}`)
}

func TestStructuredMode(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(body))
	packed, ok := toMsgpack([]byte(body))
	if !ok {
		t.Fatal("not packed")
	}
	for name, tc := range map[string]struct {
		contentType string
		members     string
		attribute   string // the rejected one, "" if none
	}{
		"without any header":               {"", `,"data":` + body, ""},
		"with the content type":            {"application/cloudevents+json", `,"data":` + body, ""},
		"with a charset":                   {"application/CloudEvents+json; charset=utf-8", `,"data":` + body, ""},
		"the short content type":           {"application/cloudevents", `,"data":` + body, ""},
		"every attribute":                  {"", `,"time":"2026-01-01T00:00:00Z","subject":"a.>","dataschema":"x:y","datacontenttype":"application/json","count":3,"flag":true,"data":` + body, ""},
		"line breaks around the data":      {"", ",\n\"data\":\r\n" + body + "\n", ""},
		"base64":                           {"", `,"data_base64":"` + encoded + `"`, ""},
		"msgpack":                          {"", `,"datacontenttype":"application/msgpack","data_base64":"` + base64.StdEncoding.EncodeToString(packed) + `"`, ""},
		"a batch media type":               {"application/cloudevents-batch+json", `,"data":` + body, "content-type"},
		"XML":                              {"application/cloudevents+xml", `,"data":` + body, "content-type"},
		"another charset":                  {"application/cloudevents+json;charset=latin1", `,"data":` + body, "content-type"},
		"C03 specversion a number":         {"", `,"specversion":1.0,"data":` + body, "specversion"},
		"C14 extension an object":          {"", `,"ext":{},"data":` + body, "ext"},
		"C13 capitals in an extension":     {"", `,"Ext":"x","data":` + body, "Ext"},
		"C13 dash in an extension":         {"", `,"ce-ext":"x","data":` + body, "ce-ext"},
		"C10 control in an attribute":      {"", `,"ext":"a\r\nb","data":` + body, "ext"},
		"C15 data and data_base64":         {"", `,"data":` + body + `,"data_base64":"` + encoded + `"`, "data_base64"},
		"C15 null data and data_base64":    {"", `,"data":null,"data_base64":"` + encoded + `"`, "data_base64"},
		"C16 invalid base64":               {"", `,"data_base64":"a"`, "data_base64"},
		"C16 line break in base64":         {"", `,"data_base64":"` + encoded[:4] + `\n` + encoded[4:] + `"`, "data_base64"},
		"base64 a number":                  {"", `,"data_base64":7`, "data_base64"},
		"empty base64":                     {"", `,"data_base64":""`, "data"},
		"C25 attribute twice":              {"", `,"id":"3-17","data":` + body, "id"},
		"C25 twice by escape":              {"", `,"\u0069d":"3-17","data":` + body, "id"},
		"C25 extension twice":              {"", `,"ext":"a","ext":"a","data":` + body, "ext"},
		"C26 null attribute":               {"", `,"time":null,"data":` + body, "time"},
		"C26 null extension":               {"", `,"ext":null,"data":` + body, "ext"},
		"an attribute that is half a pair": {"", `,"ext":"\ud800","data":` + body, "ext"},
		"a name that is half a pair":       {"", `,"\ud800":"x","data":` + body, "event"},
		"a name of control":                {"", `,"\n":"x","data":` + body, `"\n"`},
		"no data":                          {"", ``, "data"},
		"null data":                        {"", `,"data":null`, "data"},
		"data a string of JSON":            {"", `,"data":"{}"`, "data"},
		"msgpack as text":                  {"", `,"datacontenttype":"application/msgpack","data":"abc"`, "data"},
		"C17 bad media type":               {"", `,"datacontenttype":";","data":` + body, "datacontenttype"},
		"another type inside":              {"", `,"data":{"type":"thinking"}`, "data"},
		"cut off":                          {"", `,"data":` + body + `,`, "event"},
	} {
		t.Run(name, func(t *testing.T) {
			h := map[string][]string{}
			if tc.contentType != "" {
				h["content-type"] = []string{tc.contentType}
			}
			event := structured(tc.members)
			if strings.Contains(tc.members, `"specversion":1.0`) {
				event = []byte(strings.Replace(string(event), `"specversion":"1.0",`, "", 1))
			}
			rec, err := Decode(Stored{Session: session, Seq: 1, Header: h, Data: event})
			if tc.attribute == "" {
				if err != nil || rec.Epoch != 3 || rec.Ordinal != 17 || string(rec.Data) != body {
					t.Errorf("got %+v, %v", rec, err)
				}
				return
			}
			wantRefusal(t, err, tc.attribute)
		})
	}
}

// Writers use different spellings of the media type of msgpack.
func TestMsgpackMediaTypes(t *testing.T) {
	packed, ok := toMsgpack([]byte(body))
	if !ok {
		t.Fatal("not packed")
	}
	for _, media := range []string{"application/msgpack", "application/vnd.msgpack", "application/x-msgpack", "Application/MsgPack; v=1"} {
		rec, err := Decode(Stored{Session: session, Seq: 1, Header: with(map[string][]string{"ce-datacontenttype": {media}}), Data: packed})
		if err != nil || string(rec.Data) != body {
			t.Errorf("%s: %s, %v", media, rec.Data, err)
		}
	}
}

// Neither mode: a message without ce- headers that has the type of plain JSON, or whose body is not an event.
func TestNoEventAtAll(t *testing.T) {
	for name, tc := range map[string]struct {
		header    map[string][]string
		data      string
		attribute string
	}{
		"C40 plain JSON":      {map[string][]string{"content-type": {mediaJSON}}, body, "specversion"},
		"a chunk bare":        {nil, body, "agentId"},
		"S22 empty":           {nil, "", "event"},
		"C27 a batch":         {nil, "[" + string(structured(`,"data":`+body)) + "]", "event"},
		"bytes":               {nil, "\x00\xFF", "event"},
		"deep":                {nil, strings.Repeat("[", 300_000), "event"},
		"NATS headers only":   {map[string][]string{"Nats-Msg-Id": {"x"}}, "hello", "event"},
		"bad type of message": {map[string][]string{"content-type": {"application/cloudevents;;="}}, "{}", "content-type"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(Stored{Session: session, Seq: 1, Header: tc.header, Data: []byte(tc.data)})
			wantRefusal(t, err, tc.attribute)
		})
	}
}
