package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/projector/fold"
)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The bodies of requests equal those that the library of OpenAI (openai-go 3.96.0) writes for the same history. The library is not linked, because it is
// 40 % of the binary (ADR 0035).
func TestRequestsAreThoseOfTheLibrary(t *testing.T) {
	image := fold.File{URL: "https://a.example/b.png", MediaType: "image/png"}
	data := fold.File{URL: "data:application/pdf;base64,AAAA", MediaType: "application/pdf", Filename: "a.pdf"}
	link := fold.File{URL: "https://a.example/b.pdf", MediaType: "application/pdf", Filename: "b.pdf"}
	q := request{
		system: "Be <brief>.",
		history: []entry{
			{role: userRole, text: "hello"},
			{role: modelRole, text: "I look.", reasoning: "hm", calls: []historyCall{{id: "c1", name: "look_up", args: `{"id":"1"}`}, {id: "c2", name: "look_up", args: `{}`}}},
			{role: outcomeRole, call: "c1", text: "found"},
			{role: outcomeRole, call: "c2", text: "error: none"},
			{role: modelRole, calls: []historyCall{{id: "c3", name: "look_up", args: `{}`}}},
			{role: outcomeRole, call: "c3", text: ""},
			{role: userRole, text: "see", files: []fold.File{image, data, link}},
			{role: userRole, files: []fold.File{image}},
		},
		tools: []*tool{
			{Tool: Tool{Name: "look_up", Description: "looks"}, params: map[string]any{"type": "object"}},
			{Tool: Tool{Name: "bare"}, params: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}}},
		},
		requireTool: true,
	}
	for _, c := range []struct {
		file, url string
		cfg       Config
	}{
		{"chat.json", "https://api.openai.com/v1/chat/completions", Config{API: Chat, Key: "k"}},
		{"chat-reasoning.json", "http://localhost:1/v1/chat/completions", Config{API: Chat, BaseURL: "http://localhost:1/v1/", SendReasoning: true, ExtraBody: map[string]any{"temperature": 0.5, "model": "n"}}},
		{"responses.json", "http://localhost:1/v1/responses", Config{API: Responses, BaseURL: "http://localhost:1/v1"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			var sent []byte
			c.cfg.Model = "m"
			c.cfg.Client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				authorization := ""
				if c.cfg.Key != "" {
					authorization = "Bearer k"
				}
				if r.Method != http.MethodPost || r.URL.String() != c.url || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != authorization {
					t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
				}
				sent, err = io.ReadAll(r.Body)
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, err
			})}
			a, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = a.send(context.Background(), outgoing.NewTimer(Off, nil), q, newStepWriter(nil, nil, "")); err == nil {
				t.Error("an empty response is complete")
			}
			var got, want any
			if err := json.Unmarshal(sent, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("request\n%s\nwant\n%s", sent, text)
			}
		})
	}
}
