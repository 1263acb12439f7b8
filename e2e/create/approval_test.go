//go:build e2e

package create

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
)

// TestCreateFromClone creates a project as clients/create/README.md says for a clone, adds a tool that needs an approval and two buttons, as it says too, and uses a model. The
// model calls the tool, the user allows the call after a reload, and the answer continues. The script, which answers without a model, calls the tool too.
func TestCreateFromClone(t *testing.T) {
	model := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		if outcome := r.Outcome("call_1"); outcome != "" {
			return openaitest.StreamReply(openaitest.Text("The tool says: " + outcome))
		}
		return openaitest.StreamReply(openaitest.Text("I ask you first. "), openaitest.Call{ID: "call_1", Name: "remove", Args: `{"file":"notes.txt"}`})
	})
	n := newNPM(t).with("npm_config_audit=false", "npm_config_fund=false")
	home := t.TempDir()
	clone, dir := filepath.Join(home, "clone"), filepath.Join(home, "my-chat")
	if err := os.CopyFS(filepath.Join(clone, "clients"), withoutBuilt{os.DirFS(filepath.Join("..", "..", "clients"))}); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(source, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```sh run=TestCreateFromClone\n")
	box, _, _ := strings.Cut(rest, "```")
	commands, dev, found := strings.Cut(box, "npm run dev")
	if !found || strings.Contains(dev, "\n\n") {
		t.Fatalf("the README does not end with npm run dev:\n%s", box)
	}
	script := exec.CommandContext(t.Context(), "sh", "-euc", commands)
	script.Dir, script.Env = clone, n.env
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	edit(t, filepath.Join(dir, "app", "api", "agent", "route.ts"),
		`import { convertToModelMessages, streamText } from "ai";`, `import { convertToModelMessages, jsonSchema, stepCountIs, streamText, tool } from "ai";`,
		"// The agent.", `const remove = tool({
  description: "Removes a file.", inputSchema: jsonSchema<{ file: string }>({ type: "object", properties: { file: { type: "string" } } }), needsApproval: true,
  execute: async ({ file }) => file + " is removed",
});

// The agent.`,
		"model: model(),", "model: model(), tools: { remove }, stopWhen: stepCountIs(5),")
	edit(t, filepath.Join(dir, "app", "page.tsx"),
		`import { useTailraceChat }`, "import { isToolUIPart } from \"ai\";\nimport { useTailraceChat }",
		"{ messages, sendMessage, stop,", "{ messages, sendMessage, addToolApprovalResponse: decide, stop,",
		"      {error &&", `      {messages.flatMap(({ parts }) => parts).map((part) => isToolUIPart(part) && part.state === "approval-requested" && (
        <p key={part.toolCallId} className="decision">
          <button type="button" onClick={() => decide({ id: part.approval.id, approved: true })}>Allow</button>
          <button type="button" onClick={() => decide({ id: part.approval.id, approved: false })}>Deny</button>
        </p>
      ))}
      {error &&`)

	browser := browsertest.Start(t)
	p := newProject(t, n, dir)
	p.start()
	tab := page{t, browser}
	tab.open(p.url())
	tab.send("Remove my notes")
	const allow = `document.querySelector('.decision button')`
	tab.await(allow + ` !== null`)
	browsertest.Eval[bool](tab.tab, t, allow+`.click() === undefined`)
	tab.awaitAnswer("sentence 2 ")
	tab.stop()
	p.interrupt()

	p.npm = p.npm.with("MODEL_URL="+model.URL, "MODEL_KEY="+openaitest.Key)
	p.start()
	tab.open(p.url())
	tab.send("Remove my notes")
	tab.awaitAnswer("I ask you first.")
	tab.await(allow + ` !== null`)
	tab.reload()
	tab.await(allow + ` !== null`)
	browsertest.Eval[bool](tab.tab, t, allow+`.click() === undefined`)
	tab.awaitAnswer("The tool says: notes.txt is removed")
	tab.awaitStatus("ready")
	if got := len(model.Requests()); got != 2 {
		t.Errorf("the model was asked %d times, want 2", got)
	}
}

// edit replaces texts of a file, each of which it has once.
func edit(t *testing.T, path string, pairs ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			t.Fatalf("%s has %q %d times", path, pairs[i], n)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
