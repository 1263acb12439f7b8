package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// startWorker runs `tailrace worker` until the test ends.
func startWorker(t *testing.T, server *natstest.Server, args ...string) *process {
	t.Helper()
	cfg, _, err := load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, server.JetStream(t), cfg.topology())
	return startProcess(t, append([]string{"worker", "--log-level", "debug", "--ops-listen", "127.0.0.1:0", "--nats-url", server.URL}, args...)...)
}

// ask publishes a command, as a chat does.
func ask(t *testing.T, server *natstest.Server, session, agent, text string) {
	t.Helper()
	queue, err := jscontrol.NewQueue(server.JetStream(t), jscontrol.QueueConfig{})
	if err != nil {
		t.Fatal(err)
	}
	err = queue.Request(t.Context(), control.Command{
		Kind: control.Execute, Session: chunk.RootSession("default", session), AgentType: agent, RunID: "r1",
		Input: []chunk.InputMessage{{Content: text}}, Issued: time.Now(),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
}

// tailed returns the output of `tailrace tail` for a session that starts soon, up to its end. A tail that fails otherwise is
// not repeated, because it would keep failing until the test times out.
func tailed(t *testing.T, server *natstest.Server, session string) string {
	t.Helper()
	var shown string
	natstest.Eventually(t, "tail "+session, func(context.Context) error { // not the context of the attempt: a tail may take longer
		code, out, errs := runCommand(t, "", "tail", session, "--nats-url", server.URL)
		if code != exitOK && !strings.Contains(errs, "no such session") {
			t.Fatalf("tail %s: exit code %d: %s%s", session, code, out, errs)
		}
		if code != exitOK {
			return errors.New(errs)
		}
		shown = out
		return nil
	})
	return shown
}

// tailText returns the text deltas in the output of tail.
func tailText(t *testing.T, shown string) string {
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

// With a key the worker uses a model, and tail shows the text that the model streams. The key appears in no output.
func TestWorkerWithAModel(t *testing.T) {
	for _, api := range []string{"chat", "responses"} {
		t.Run(api, func(t *testing.T) {
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
				return openaitest.StreamReply(openaitest.Text("Hello "), openaitest.Text("from the "), openaitest.Text("model."))
			})
			server := streamtest.Start(t)
			file := writeFile(t, "agents.json", fmt.Sprintf(`{"agents":{"assistant":{"api":%q,"system":"Be brief.","idleTimeout":"1m"}}}`, api))
			worker := startWorker(t, server, "--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--agents", file)
			ask(t, server, "s1", "assistant", "Hi")
			shown := tailed(t, server, "s1")
			if got := tailText(t, shown); got != "Hello from the model." {
				t.Errorf("tail shows %q: %s", got, shown)
			}
			if strings.Contains(shown+worker.out.String(), openaitest.Key) {
				t.Error("the key was printed")
			}
			if req := end.Requests()[0]; req.System != "Be brief." || req.Model != "m1" || req.API != api {
				t.Errorf("asked %+v", req)
			}
		})
	}
}

// A rejected key is reported with an error message of Tailrace that does not contain the key.
func TestRejectedKey(t *testing.T) {
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(openaitest.Text("never")) })
	server := streamtest.Start(t)
	const key = "sk-not-the-right-one-0123"
	worker := startWorker(t, server, "--model-url", end.URL, "--model-key", key, "--model", "m1")
	ask(t, server, "s1", "assistant", "Hi")
	natstest.Eventually(t, "the end of the run", func(context.Context) error {
		if text := worker.out.String(); !strings.Contains(text, "run failed") {
			return fmt.Errorf("worker log: %s", text)
		}
		return nil
	})
	all := worker.out.String() + tailrace(t, exitError, "tail", "s1", "--nats-url", server.URL)
	if strings.Contains(all, key) || !strings.Contains(all, "provider_auth_failed") || !strings.Contains(all, "rejected the credentials") {
		t.Errorf("want the code and the message without the key: %s", all)
	}
}

// A file defines the agents, the URLs of their tools, and their sub-agents.
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
			t.Error("tool call without an idempotency key")
		}
		fmt.Fprint(w, `{"state":"sent"}`)
	}))
	t.Cleanup(shop.Close)
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		switch {
		case r.System == "You know orders." && len(r.Messages) == 1:
			return openaitest.StreamReply(openaitest.Call{ID: "c1", Name: "order", Args: `{"id":"7"}`})
		case r.System == "You know orders.":
			return openaitest.StreamReply(openaitest.Text("Order 7: " + r.Outcome("c1")))
		case len(r.Messages) == 1:
			return openaitest.StreamReply(openaitest.Call{ID: "c2", Name: "subagent__orders", Args: `{"message":"What of order 7?"}`})
		}
		return openaitest.StreamReply(openaitest.Text("It was sent: " + r.Outcome("c2")))
	})
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
	server := streamtest.Start(t)
	worker := startWorker(t, server, "--model-url", end.URL, "--model-key", openaitest.Key, "--model", "m1", "--agents", writeFile(t, "agents.json", string(text)))
	ask(t, server, "s1", "front", "Where is order 7?")
	var shown string
	natstest.Eventually(t, "the end of the answer", func(context.Context) error {
		if shown = tailed(t, server, "s1"); !strings.Contains(tailText(t, shown), `It was sent: Order 7: {"state":"sent"}`) {
			return fmt.Errorf("tail shows %s", shown)
		}
		return nil
	})
	if len(orders) != 1 || orders[0] != `Bearer shop-secret {"id":"7"}` {
		t.Errorf("requests of the shop: %q", orders)
	}
	if strings.Contains(shown+worker.out.String(), "shop-secret") {
		t.Error("the shop's token was printed")
	}
}

// An invalid file is rejected at the start.
func TestInvalidFilesOfAgents(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                 "unexpected EOF",
		`{}`:                                "at least one",
		`{"agents":{"a b":{}}}`:             "agent type",
		`{"agents":{"a":{"colour":"red"}}}`: "colour",
		`{"agents":{"a":{"tools":[{"name":"x"}]}}}`:                                                   `want "execute": "client" or a "url"`,
		`{"agents":{"a":{"tools":[{"name":"x","execute":"client","timeout":"soon"}]}}}`:               "timeout",
		`{"agents":{"a":{"tools":[{"name":"x","url":"ftp://x"}]}}}`:                                   "want an http or https URL",
		`{"agents":{"a":{"tools":[{"name":"x y","execute":"client"}]}}}`:                              "invalid name",
		`{"agents":{"a":{"output":{"type":"array"}}}}`:                                                "want object",
		`{"agents":{"a":{"api":"telepathy"}}}`:                                                        "telepathy",
		`{"agents":{"a":{"idleTimeout":"soon"}}}`:                                                     "idleTimeout",
		`{"agents":{"a":{"api":"chat","http":{"url":"http://h/v1/responses","dialect":"openai"}}}}`:   "want no api",
		`{"agents":{"a":{"http":{"url":"ftp://x"}}}}`:                                                 "URL is invalid",
		`{"agents":{"a":{"http":{"url":"http://h","dialect":"morse"}}}}`:                              `there is no dialect "morse": want agui`,
		`{"agents":{"a":{"http":{"url":"http://h"},"system":"x"}}}`:                                   "no other member",
		`{"agents":{"a":{"http":{"url":"http://h","idleTimeout":"-1s"}}}}`:                            "idleTimeout",
		`{"agents":{"a":{"http":{"url":"http://h","headers":{"A":"${TRTEST_NO_TOKEN}"}}}}}`:           "environment variable TRTEST_NO_TOKEN",
		`{"agents":{"a":{"http":{"url":"http://h/v1/completions","dialect":"openai"}}}}`:              "/chat/completions",
		`{"agents":{"a":{"http":{"url":"http://h/v1/responses","dialect":"openai","timeout":"1s"}}}}`: "only",
		// A call without its credentials would be sent, and rejected with 401 at the first call of a model.
		`{"agents":{"a":{"tools":[{"name":"x","url":"http://h","headers":{"Authorization":"Bearer ${TRTEST_NO_TOKEN}"}}]}}}`: "header Authorization: environment variable TRTEST_NO_TOKEN",
	} {
		cfg, _, err := load([]string{"--model-key", "k", "--model", "m", "--agents", writeFile(t, "agents.json", text)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&app{cfg: cfg, log: cfg.logger(io.Discard)}).agents()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want one with %q", text, err, want)
		}
	}
}

// The files of agents in documents are valid.
func TestFilesOfAgentsInDocuments(t *testing.T) {
	for _, name := range []string{"SHOP_TOKEN", "APP_TOKEN"} {
		t.Setenv(name, "secret")
	}
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)(?:```json\n|`|')(\\{\"agents\": .*?)(?:\n```|`|')").FindAllStringSubmatch(string(text), -1) {
			found++
			cfg, _, err := load([]string{"--model-key", "k", "--model", "m", "--agents", writeFile(t, "agents.json", m[1])}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&app{cfg: cfg, log: cfg.logger(io.Discard)}).agents(); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, m[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("%d files of agents in documents, want at least 5", found)
	}
}

// No way of printing the settings reveals the key.
func TestKeyIsNotPrinted(t *testing.T) {
	cfg, _, err := load([]string{"--model-key", "sk-1234"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cfg.logger(&log).Info("settings", "all", cfg, "key", cfg.ModelKey)
	if text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg.ModelKey, log.String()); strings.Contains(text, "sk-1234") {
		t.Errorf("printed: %s", text)
	}
}

// With a model, chats use its agent unless the setting names others.
func TestChatAgentDefaults(t *testing.T) {
	for args, want := range map[string]string{
		"": "demo", "--model-key k": "assistant", "--model-url http://h/v1 --chat-agent clerk": "clerk", "--model-key k --chat-agent a,b": "a,b",
		"--agents a.json": "assistant", "--agents a.json --chat-agent support": "support",
	} {
		cfg, _, err := load(strings.Fields(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cfg.ChatAgents, ","); got != want {
			t.Errorf("%q: chat agents %q, want %q", args, got, want)
		}
	}
}

// An agent in the file may be an HTTP endpoint, without any setting of a model.
func TestHTTPAgent(t *testing.T) {
	t.Setenv("APP_TOKEN", "app-secret")
	var got http.Header
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"type":"start"}`+"\n\n"+`data: {"type":"text-start","id":"1"}`+"\n\n"+`data: {"type":"text-delta","id":"1","delta":"Hello."}`+"\n\n"+
			`data: {"type":"text-end","id":"1"}`+"\n\n"+`data: {"type":"finish"}`+"\n\n"+"data: [DONE]\n\n")
	}))
	t.Cleanup(app.Close)
	server := streamtest.Start(t)
	file := writeFile(t, "agents.json", fmt.Sprintf(`{"agents":{"support":{"model":"m1","provider":"acme","http":{"url":%q,"dialect":"aisdk","headers":{"Authorization":"Bearer ${APP_TOKEN}"}}}}}`, app.URL+"/api/chat"))
	worker := startWorker(t, server, "--agents", file)
	ask(t, server, "s1", "support", "Hi")
	shown := tailed(t, server, "s1")
	if text := tailText(t, shown); text != "Hello." || got.Get("Authorization") != "Bearer app-secret" {
		t.Errorf("tail shows %q, the endpoint got %v", text, got)
	}
	if !strings.Contains(shown, `"model":"m1","provider":"acme"`) {
		t.Errorf("tail shows no model: %s", shown)
	}
	if strings.Contains(shown+worker.out.String(), "app-secret") {
		t.Error("the token was printed")
	}
}

// The dialect openai is a model behind the URL of its API.
func TestHTTPAgentOfAModel(t *testing.T) {
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(openaitest.Text("Hello.")) })
	server := streamtest.Start(t)
	for i, path := range []string{"/chat/completions", "/responses"} {
		file := writeFile(t, "agents.json", fmt.Sprintf(`{"agents":{"m%d":{"model":"m1","system":"Be brief.","http":{"url":%q,"dialect":"openai"}}}}`, i, end.URL+path))
		startWorker(t, server, "--agents", file, "--model-key", openaitest.Key)
		ask(t, server, fmt.Sprintf("s%d", i), fmt.Sprintf("m%d", i), "Hi")
		if text := tailText(t, tailed(t, server, fmt.Sprintf("s%d", i))); text != "Hello." {
			t.Errorf("%s: tail shows %q", path, text)
		}
	}
}
