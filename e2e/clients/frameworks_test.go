//go:build e2e

package clients

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/projector/fold"
)

// claudeSubstitute has the export of the Claude Agent SDK that the example uses, and yields messages as the SDK does. The SDK itself needs its program and a key.
const claudeSubstitute = `export async function* query({ prompt, options }) {
  const event = (event) => ({ type: "stream_event", event, parent_tool_use_id: null, uuid: "u", session_id: "c" });
  if (!options.includePartialMessages) throw new Error("no partial messages");
  yield { type: "system", subtype: "init", model: "m", tools: [], session_id: "c", uuid: "u" };
  yield event({ type: "message_start", message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage: { input_tokens: 3, output_tokens: 1 } } });
  yield event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
  yield event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: prompt + " It is in Oslo." } });
  yield event({ type: "content_block_stop", index: 0 });
  yield event({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } });
  yield event({ type: "message_stop" });
  yield { type: "result", subtype: "success", result: "It is in Oslo.", is_error: false, num_turns: 1, total_cost_usd: 0.01, session_id: "c", uuid: "u" };
}
`

// graphSubstitute is a graph that yields events as one of LangGraph does.
const graphSubstitute = `export const graph = { async streamEvents({ messages }, { version }) {
  if (version !== "v3") throw new Error("no protocol events");
  const namespace = ["model:1891c13f-42a0-5ee6-b84d-94e12ed3d84f"];
  const event = (method, data, at = []) => ({ type: "event", method, params: { namespace: at, timestamp: 1796104545060, data } });
  return (async function* () {
    yield event("lifecycle", { event: "running", graph_name: "root" });
    yield event("lifecycle", { event: "started", graph_name: "model" }, namespace);
    yield event("messages", { event: "message-start", id: "msg_1" }, namespace);
    yield event("messages", { event: "content-block-start", index: 0, content: { type: "text", text: "" } }, namespace);
    yield event("messages", { event: "content-block-delta", index: 0, delta: { type: "text-delta", text: messages[0].content + " It is in Oslo." } }, namespace);
    yield event("messages", { event: "message-finish", reason: "stop" }, namespace);
    yield event("lifecycle", { event: "completed", graph_name: "model" }, namespace);
    yield event("values", { city: "Oslo" });
    yield event("lifecycle", { event: "completed", graph_name: "root" });
  })();
} };
`

// TestFrameworkExamples runs the programs of examples/frameworks, which pages of docs/frameworks show: with a model that is a script, and with substitutes for the SDK and for a graph.
func TestFrameworkExamples(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.ingestEdge()
	model := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/chat/completions" || r.Header.Get("Authorization") != "Bearer key" || !strings.Contains(string(body), `"stream":true`) {
			t.Errorf("%s %v %s", r.URL.Path, err, body)
		}
		out.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(out, chatStream(20, done)) // the run would lack it
	}))
	t.Cleanup(model.Close)
	sdk := filepath.Join(b.dir, "node_modules", "@anthropic-ai", "claude-agent-sdk")
	w.must(os.MkdirAll(sdk, 0o755))
	w.must(os.WriteFile(filepath.Join(sdk, "package.json"), []byte(`{"name":"@anthropic-ai/claude-agent-sdk","type":"module","exports":"./index.js"}`), 0o600))
	w.must(os.WriteFile(filepath.Join(sdk, "index.js"), []byte(claudeSubstitute), 0o600))
	w.must(os.WriteFile(filepath.Join(b.dir, "graph.mjs"), []byte(graphSubstitute), 0o600))
	answer := "Where is my parcel? It is in Oslo."
	for name, want := range map[string]string{"openai": counted(20), "claude-agent-sdk": answer, "langgraph": answer} {
		w.must(copyFile(filepath.Join("..", "..", "examples", "frameworks", name+".mjs"), b.dir))
		run := exec.CommandContext(t.Context(), b.node, filepath.Join(b.dir, name+".mjs"), name)
		run.Env = append(os.Environ(), "TAILRACE_URL="+edge, "MODEL_URL="+model.URL, "MODEL_KEY=key", "MODEL=m")
		if out, err := run.CombinedOutput(); err != nil || string(out) != "ended\n" {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		w.AwaitStatus(session(name), fold.Ended)
		if got := w.text(name); got != want {
			t.Errorf("%s: the text is %q, want %q", name, got, want)
		}
	}
}
