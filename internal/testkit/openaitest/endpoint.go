package openaitest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Key is the key that an Endpoint accepts.
const Key = "sk-test-0123456789abcdef"

// Endpoint is a server on the loopback interface.
type Endpoint struct {
	URL    string       // with the version: the base URL of clients
	Client *http.Client // reaches the endpoint; its connections are closed at the end

	tb     testing.TB
	server *httptest.Server
	answer func(Request) Reply
	ended  chan struct{} // closed when the test ends

	mu       sync.Mutex // guards the fields below
	requests []Request
	split    *rand.Rand
}

// Start runs an Endpoint until the test ends. answer is called concurrently for each valid request.
func Start(tb testing.TB, answer func(Request) Reply) *Endpoint {
	tb.Helper()
	e := &Endpoint{tb: tb, answer: answer, ended: make(chan struct{})}
	e.server = httptest.NewServer(http.HandlerFunc(e.serve))
	e.URL, e.Client = e.server.URL+"/v1", e.server.Client()
	tb.Cleanup(func() {
		close(e.ended)
		e.server.CloseClientConnections()
		e.server.Close()
	})
	return e
}

// Split makes the endpoint flush its bytes in pieces of a random size.
func (e *Endpoint) Split(r *rand.Rand) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.split = r
}

// Requests returns the valid requests, oldest first.
func (e *Endpoint) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Request(nil), e.requests...)
}

// Request is a request in a form that both APIs share.
type Request struct {
	N          int    // of the request, from 1
	API        string // "chat" or "responses"
	Model      string
	System     string
	Messages   []Message
	Tools      []string // names
	ToolChoice string
	Body       json.RawMessage

	Disconnected <-chan struct{} // closed when the client disconnects
}

// Message is one entry of the history.
type Message struct {
	Role  string // "user", "assistant" or "tool"
	Text  string
	Files int
	// Reasoning is the member reasoning_content of chat completions, nil if it is missing.
	Reasoning *string
	Calls     []Call
	CallID    string // of a tool's message
}

// Last returns the last message.
func (r Request) Last() Message { return r.Messages[len(r.Messages)-1] }

// Outcome returns the outcome of a call in the history, "" if there is none.
func (r Request) Outcome(id string) string {
	for _, m := range r.Messages {
		if m.CallID == id {
			return m.Text
		}
	}
	return ""
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	if r.Header.Get("Authorization") != "Bearer "+Key {
		// The real endpoint repeats a part of the key as well.
		refuse(w, http.StatusUnauthorized, Error{Message: "Incorrect API key provided: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + ".", Type: "invalid_request_error", Code: "invalid_api_key"})
		return
	}
	req, problem := parse(r, body)
	if problem != "" {
		e.tb.Errorf("openaitest: %s: %s\n%s", r.URL.Path, problem, body)
		refuse(w, http.StatusBadRequest, Error{Message: problem, Type: "invalid_request_error"})
		return
	}
	e.mu.Lock()
	req.N, req.Disconnected = len(e.requests)+1, r.Context().Done()
	e.requests = append(e.requests, req)
	split := e.split
	if split != nil {
		split = rand.New(rand.NewPCG(split.Uint64(), split.Uint64()))
	}
	e.mu.Unlock()

	reply := e.answer(req)
	maps.Copy(w.Header(), reply.Header)
	if reply.Status != 0 {
		refuse(w, reply.Status, reply.Error)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-e.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	out := &writer{w: w, split: split, crlf: reply.CRLF, nulls: reply.Nulls}
	if req.API == "chat" {
		streamChat(ctx, out, req, reply)
	} else {
		streamResponses(ctx, out, req, reply)
	}
}

func refuse(w http.ResponseWriter, status int, p Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(map[string]any{"error": p.members()})) // the client may have disconnected
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("openaitest: " + err.Error()) // unreachable: maps of strings can be encoded
	}
	return text
}

// writer writes server-sent events.
type writer struct {
	w     http.ResponseWriter
	split *rand.Rand // nil: a frame at a time
	crlf  bool
	nulls bool
	begun bool
}

// frame writes an event. The name is "" in chat completions.
func (w *writer) frame(name string, data []byte) {
	if event, ok := bytes.CutPrefix(data, []byte("{")); w.nulls && ok && !bytes.HasPrefix(event, []byte(`"error"`)) {
		data = append([]byte(`{"error":null,`), event...)
	}
	text := "data: " + string(data) + "\n\n"
	if name != "" {
		text = "event: " + name + "\n" + text
	}
	if w.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	w.raw(text)
}

// raw writes bytes as they are.
func (w *writer) raw(text string) {
	if !w.begun {
		w.begun = true
		w.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.w.Header().Set("Cache-Control", "no-cache")
		w.w.WriteHeader(http.StatusOK)
	}
	for len(text) > 0 {
		n := len(text)
		if w.split != nil {
			n = 1 + w.split.IntN(n)
		}
		if _, err := io.WriteString(w.w, text[:n]); err != nil {
			panic(http.ErrAbortHandler) // the client has disconnected
		}
		_ = http.NewResponseController(w.w).Flush() // the client may have disconnected
		text = text[n:]
	}
}
