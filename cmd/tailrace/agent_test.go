package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/internal/topology"
)

// transcript is what a command says, to be read while it runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// working runs `tailrace worker` until the test ends.
func working(t *testing.T, server *natstest.Server, args ...string) *transcript {
	t.Helper()
	cfg, _, err := load(nil, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.Ensure(t.Context(), server.JetStream(t), (&backbone{cfg: cfg}).topologyConfig()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var said transcript
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, terminal{in: strings.NewReader(""), out: io.Discard, err: &said}, append([]string{"worker", "--log-level", "debug", "--nats-url", server.URL}, args...))
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("the worker ended with %d", code)
		}
		if t.Failed() {
			t.Logf("the worker said %s", said.String())
		}
	})
	return &said
}

// ask stores a command, as a chat does.
func ask(t *testing.T, server *natstest.Server, session, agent, text string) {
	t.Helper()
	queue, err := commands.New(server.JetStream(t), commands.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = queue.Request(t.Context(), commands.Command{
		Kind: commands.Execute, Session: chunk.RootSession("default", session), AgentType: agent, RunID: "r1",
		Input: []chunk.InputMessage{{Content: text}}, Issued: time.Now(),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
}

// tailed is what `tailrace tail` shows of a session that begins soon, up to its
// end. One that fails is not asked for again: it will not get better, and who
// waits for it waits until somebody loses patience with the test.
func tailed(t *testing.T, server *natstest.Server, session string) string {
	t.Helper()
	var out bytes.Buffer
	natstest.Await(t, "tail "+session, func(context.Context) error { // not its context: a tail may take longer than one try
		var errs bytes.Buffer
		out.Reset()
		args := []string{"tail", session, "--nats-url", server.URL}
		code := run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &errs}, args)
		if code != exitOK && !strings.Contains(errs.String(), "no such session") {
			t.Fatalf("tail %s ended with %d: %s%s", session, code, &out, &errs)
		}
		if code != exitOK {
			return errors.New(errs.String())
		}
		return nil
	})
	return out.String()
}

// spoken is the text in what tail shows.
func spoken(t *testing.T, shown string) string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(shown) {
		var rec struct {
			Chunk struct {
				Delta string `json:"delta"`
			} `json:"chunk"`
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		text.WriteString(rec.Chunk.Delta)
	}
	return text.String()
}

// With a key the worker answers with a model, and what the model streams is shown
// by tail. The key is in nothing that is printed.
func TestWorkerWithAModel(t *testing.T) {
	for _, api := range []string{"chat", "responses"} {
		t.Run(api, func(t *testing.T) {
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
				return openaitest.Say(openaitest.Text("Hello "), openaitest.Text("from the "), openaitest.Text("model."))
			})
			server := natstest.Start(t, natstest.Listen())
			said := working(t, server, "--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--model-api", api, "--model-system", "Be brief.")
			ask(t, server, "s1", "assistant", "Hi")
			shown := tailed(t, server, "s1")
			if got := spoken(t, shown); got != "Hello from the model." {
				t.Errorf("tail shows %q: %s", got, shown)
			}
			if strings.Contains(shown+said.String(), openaitest.Key) {
				t.Error("the key was printed")
			}
			if req := end.Requests()[0]; req.System != "Be brief." || req.Model != "m1" || req.API != api {
				t.Errorf("asked %+v", req)
			}
		})
	}
}

// What is shown of a key that is no good is a sentence of ours.
func TestKeyThatIsRefused(t *testing.T) {
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.Say(openaitest.Text("never")) })
	server := natstest.Start(t, natstest.Listen())
	const key = "sk-not-the-right-one-0123"
	said := working(t, server, "--model-url", end.URL, "--model-key", key, "--model", "m1")
	ask(t, server, "s1", "assistant", "Hi")
	natstest.Await(t, "the end of the run", func(context.Context) error {
		if text := said.String(); !strings.Contains(text, "a run failed") {
			return fmt.Errorf("the worker said %s", text)
		}
		return nil
	})
	all := said.String() + tailrace(t, exitError, "tail", "s1", "--nats-url", server.URL)
	if strings.Contains(all, key) || !strings.Contains(all, "provider_auth_failed") || !strings.Contains(all, "did not let us in") {
		t.Errorf("want the code, the sentence, and not the key: %s", all)
	}
}

// A file says which agents there are: their tools behind URLs, and who asks whom.
func TestFileOfAgents(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "shop-secret")
	var orders []string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		orders = append(orders, r.Header.Get("Authorization")+" "+string(body))
		if r.Header.Get("Idempotency-Key") == "" {
			t.Error("a call without its key")
		}
		fmt.Fprint(w, `{"state":"sent"}`)
	}))
	t.Cleanup(shop.Close)
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		switch {
		case r.System == "You know orders." && len(r.Messages) == 1:
			return openaitest.Say(openaitest.Call{ID: "c1", Name: "order", Args: `{"id":"7"}`})
		case r.System == "You know orders.":
			return openaitest.Say(openaitest.Text("Order 7: " + r.Outcome("c1")))
		case len(r.Messages) == 1:
			return openaitest.Say(openaitest.Call{ID: "c2", Name: "subagent__orders", Args: `{"message":"What of order 7?"}`})
		}
		return openaitest.Say(openaitest.Text("It is on its way: " + r.Outcome("c2")))
	})
	file := filepath.Join(t.TempDir(), "agents.json")
	text, err := json.Marshal(map[string]any{"agents": map[string]any{
		"front": map[string]any{"system": "You greet.", "subagents": map[string]string{"orders": "Knows orders."}},
		"orders": map[string]any{"system": "You know orders.", "model": "m2", "tools": []any{map[string]any{
			"name": "order", "description": "Finds an order.", "url": shop.URL, "headers": map[string]string{"Authorization": "Bearer ${SHOP_TOKEN}"},
			"parameters": map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}}, "required": []string{"id"}},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	server := natstest.Start(t, natstest.Listen())
	said := working(t, server, "--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--agents", file)
	ask(t, server, "s1", "front", "Where is order 7?")
	var shown string
	natstest.Await(t, "the end of the answer", func(context.Context) error {
		if shown = tailed(t, server, "s1"); !strings.Contains(spoken(t, shown), `It is on its way: Order 7: {"state":"sent"}`) {
			return fmt.Errorf("tail shows %s", shown)
		}
		return nil
	})
	if len(orders) != 1 || orders[0] != `Bearer shop-secret {"id":"7"}` {
		t.Errorf("the shop was asked %q", orders)
	}
	if strings.Contains(shown+said.String(), "shop-secret") {
		t.Error("the shop's token was printed")
	}
}

// A file that is no good is refused before anything runs.
func TestWrongFilesOfAgents(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                 "unexpected EOF",
		`{}`:                                "at least one",
		`{"agents":{"a b":{}}}`:             "agent type",
		`{"agents":{"a":{"colour":"red"}}}`: "colour",
		`{"agents":{"a":{"tools":[{"name":"x"}]}}}`:                                     `want "execute": "client" or a "url"`,
		`{"agents":{"a":{"tools":[{"name":"x","execute":"client","timeout":"soon"}]}}}`: "timeout",
		`{"agents":{"a":{"tools":[{"name":"x","url":"ftp://x"}]}}}`:                     "no http or https URL",
		`{"agents":{"a":{"tools":[{"name":"x y","execute":"client"}]}}}`:                "no token",
		`{"agents":{"a":{"output":{"type":"array"}}}}`:                                  "want object",
	} {
		file := filepath.Join(t.TempDir(), "agents.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := load([]string{"--model-key", "k", "--model", "m", "--agents", file}, io.Discard, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&backbone{cfg: cfg, log: cfg.logger(io.Discard)}).models()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want one with %q", text, err, want)
		}
	}
}

// A key is not printed, whatever prints the settings.
func TestKeyIsNotPrinted(t *testing.T) {
	cfg, _, err := load([]string{"--model-key", "sk-1234"}, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cfg.logger(&log).Info("settings", "all", cfg, "key", cfg.ModelKey)
	if text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg.ModelKey, log.String()); strings.Contains(text, "sk-1234") {
		t.Errorf("printed: %s", text)
	}
}

// With a model chats are with it, unless somebody says with whom.
func TestChatsAreWithTheModel(t *testing.T) {
	for args, want := range map[string]string{
		"": "demo", "--model-key k": "assistant", "--model-url http://h/v1 --agent clerk": "clerk", "--model-key k --chat-agent a,b": "a,b",
	} {
		cfg, _, err := load(strings.Fields(args), io.Discard, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.ChatAgents.String(); got != want {
			t.Errorf("%q: chats are with %q, want %q", args, got, want)
		}
	}
}
