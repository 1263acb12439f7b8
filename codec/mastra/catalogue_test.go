package mastra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// catalogue has every type that Mastra declares, with the members of real chunks: 47 of agents, 11 of workflows and 27 of networks.
var catalogue = []string{
	`{"type":"start","runId":"r","from":"AGENT","payload":{"id":"main","messageId":"m1"}}`,
	`{"type":"step-start","runId":"r","from":"AGENT","payload":{"messageId":"m1","request":{"body":"SECRET"},"inputMessages":["SECRET"],"warnings":[]}}`,
	`{"type":"step-finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"retry"},"output":{"usage":{"inputTokens":5,"outputTokens":7,"cachedInputTokens":2,"cacheCreationInputTokens":1},"steps":["SECRET"]},"metadata":{"request":"SECRET"}}}`,
	`{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{}},"metadata":{},"messages":{"all":["SECRET"]}}}`,
	`{"type":"response-metadata","runId":"r","from":"AGENT","payload":{"signature":"sig"}}`,
	`{"type":"text-start","runId":"r","from":"AGENT","payload":{"id":"t"}}`,
	`{"type":"text-delta","runId":"r","from":"AGENT","payload":{"id":"t","text":"a \ud83d\ude00"}}`,
	`{"type":"text-end","runId":"r","from":"AGENT","payload":{"type":"text-end","id":"t"}}`,
	`{"type":"reasoning-start","runId":"r","from":"AGENT","payload":{"id":"t"}}`,
	`{"type":"reasoning-delta","runId":"r","from":"AGENT","payload":{"id":"t","text":"hm"}}`,
	`{"type":"reasoning-end","runId":"r","from":"AGENT","payload":{"id":"t","signature":"s"}}`,
	`{"type":"reasoning-signature","runId":"r","from":"AGENT","payload":{"id":"t","signature":"s"}}`,
	`{"type":"redacted-reasoning","runId":"r","from":"AGENT","payload":{"id":"t","data":"x"}}`,
	`{"type":"reasoning-file","runId":"r","from":"AGENT","payload":{"data":"AAEC","base64":"AAEC","mimeType":"image/png"}}`,
	`{"type":"source","runId":"r","from":"AGENT","payload":{"id":"s1","sourceType":"url","title":"T","url":"https://e.test/"}}`,
	`{"type":"source","runId":"r","from":"AGENT","payload":{"id":"s2","sourceType":"document","title":"D","mimeType":"text/plain","filename":"d.txt"}}`,
	`{"type":"file","runId":"r","from":"AGENT","payload":{"data":"AAEC","base64":"AAEC","mimeType":"image/png","filename":"a.png"}}`,
	`{"type":"file","runId":"r","from":"AGENT","payload":{"data":"https://e.test/a.png","mimeType":"image/png"}}`,
	`{"type":"file","runId":"r","from":"AGENT","payload":{"data":{"0":0,"1":1},"base64":"AAE=","mimeType":"image/png"}}`,
	`{"type":"file","runId":"r","from":"AGENT","payload":{"data":"AAEC","mimeType":"image/png"}}`,
	`{"type":"custom","runId":"r","from":"AGENT","payload":{"kind":"acme.widget"}}`,
	`{"type":"tool-call-input-streaming-start","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"search"}}`,
	`{"type":"tool-call-delta","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","argsTextDelta":"{}"}}`,
	`{"type":"tool-call-input-streaming-end","runId":"r","from":"AGENT","payload":{"toolCallId":"c1"}}`,
	`{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"search","args":{"q":"x"}}}`,
	`{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c2","toolName":"search"}}`,
	`{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c3","toolName":"search","args":[1]}}`,
	`{"type":"tool-call-approval","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"search","args":{"q":"x"},"resumeSchema":"{}"}}`,
	`{"type":"tool-call-suspended","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"search","args":{},"suspendPayload":{"ask":1}}}`,
	`{"type":"tool-result","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"search","result":{"hits":1}}}`,
	`{"type":"tool-result","runId":"r","from":"AGENT","payload":{"toolCallId":"c2","toolName":"search","result":{"message":"no"},"isError":true}}`,
	`{"type":"tool-error","runId":"r","from":"AGENT","payload":{"toolCallId":"c3","toolName":"search","error":{"name":"Error","cause":{"message":"boom"},"id":"FAILED","stack":"SECRET"}}}`,
	`{"type":"tool-output-denied","runId":"r","from":"AGENT","payload":{"toolCallId":"c4","toolName":"search","approval":{"id":"c4","approved":false,"reason":"no"}}}`,
	`{"type":"tool-output","runId":"r","from":"USER","payload":{"output":{"pct":10},"toolCallId":"c1","toolName":"search"}}`,
	`{"type":"tool-output","runId":"r","from":"USER","payload":{"output":{"type":"data-note","data":1},"toolCallId":"c1","toolName":"search"}}`,
	`{"type":"tool-output","runId":"r","from":"USER","payload":{"output":{"type":"workflow-step-output","runId":"w","from":"USER","payload":{"output":{"type":"step-start","runId":"x","from":"AGENT","payload":{"request":"SECRET","id":1}}}},"toolCallId":"c1","toolName":"search"}}`,
	`{"type":"step-output","runId":"r","from":"AGENT","payload":{"output":{"type":"finish","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{},"steps":["SECRET"]},"messages":["SECRET"]}}}}`,
	`{"type":"object","runId":"r","from":"AGENT","object":{"a":1}}`,
	`{"type":"object-result","runId":"r","from":"AGENT","object":{"a":1}}`,
	`{"type":"error","runId":"r","from":"AGENT","payload":{"type":"error","error":{"message":"bad","code":"E1","category":"USER","cause":{"message":"why"},"stack":"SECRET"}}}`,
	`{"type":"error","runId":"r","from":"AGENT","payload":{"error":{"status":500,"requestBodyValues":"SECRET"}}}`,
	`{"type":"abort","runId":"r","from":"AGENT","payload":{}}`,
	`{"type":"raw","runId":"r","from":"AGENT","payload":{"any":1}}`,
	`{"type":"watch","runId":"r","from":"AGENT","payload":{"workflowState":{},"eventTimestamp":1}}`,
	`{"type":"tripwire","payload":{"reason":"blocked","retry":true,"metadata":{},"processorId":"guard"}}`,
	`{"type":"is-task-complete","runId":"r","from":"AGENT","payload":{"iteration":1,"passed":true}}`,
	`{"type":"goal","runId":"r","from":"AGENT","payload":{"objective":"o","status":"active"}}`,
	`{"type":"background-task-started","runId":"r","from":"AGENT","payload":{"taskId":"b","toolName":"slow","toolCallId":"c9"}}`,
	`{"type":"background-task-running","runId":"r","from":"AGENT","payload":{"taskId":"b","toolName":"slow","toolCallId":"c9"}}`,
	`{"type":"background-task-progress","runId":"r","from":"AGENT","payload":{"taskIds":["b"],"runningCount":1,"elapsedMs":5}}`,
	`{"type":"background-task-output","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9","payload":{"type":"tool-output","payload":{"output":{"type":"step-start","payload":{"request":"SECRET"}},"toolCallId":"c9"}}}}`,
	`{"type":"background-task-completed","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9","result":1}}`,
	`{"type":"background-task-failed","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9","error":{"message":"m","stack":"SECRET"}}}`,
	`{"type":"background-task-suspended","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9","suspendData":1}}`,
	`{"type":"background-task-resumed","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9"}}`,
	`{"type":"background-task-cancelled","runId":"r","from":"AGENT","payload":{"taskId":"b","toolCallId":"c9"}}`,
	`{"type":"data-note","id":"n","data":{"request":"an application's own"},"transient":true}`,

	`{"type":"workflow-start","runId":"r","from":"WORKFLOW","payload":{"workflowId":"flow"}}`,
	`{"type":"workflow-step-start","runId":"r","from":"WORKFLOW","payload":{"id":"one","stepCallId":"x","status":"running","payload":{"n":1}}}`,
	`{"type":"workflow-step-output","runId":"r","from":"USER","payload":{"output":{"note":1},"stepName":"one"}}`,
	`{"type":"workflow-step-progress","runId":"r","from":"WORKFLOW","payload":{"id":"one","completedCount":1,"totalCount":2}}`,
	`{"type":"workflow-step-waiting","runId":"r","from":"WORKFLOW","payload":{"id":"one","status":"waiting"}}`,
	`{"type":"workflow-step-suspended","runId":"r","from":"WORKFLOW","payload":{"id":"one","status":"suspended","suspendPayload":{"ask":1}}}`,
	`{"type":"workflow-step-result","runId":"r","from":"WORKFLOW","payload":{"id":"one","status":"success","output":{"n":2}}}`,
	`{"type":"workflow-step-result","runId":"r","from":"WORKFLOW","payload":{"id":"two","status":"failed","error":{"message":"boom","stack":"SECRET"}}}`,
	`{"type":"workflow-step-result","runId":"r","from":"WORKFLOW","payload":{"id":"three","status":"skipped"}}`,
	`{"type":"workflow-step-finish","runId":"r","from":"WORKFLOW","payload":{"id":"one","metadata":{"request":"SECRET","id":1}}}`,
	`{"type":"workflow-paused","runId":"r","from":"WORKFLOW","payload":{}}`,
	`{"type":"workflow-canceled","runId":"r","from":"WORKFLOW","payload":{}}`,
	`{"type":"workflow-finish","runId":"r","from":"WORKFLOW","payload":{"workflowStatus":"success","finalWorkflowResult":{"n":4}}}`,
	`{"type":"workflow-finish","runId":"r","from":"WORKFLOW","payload":{"workflowStatus":"canceled"}}`,
	`{"type":"workflow-finish","runId":"r","from":"WORKFLOW","payload":{"workflowStatus":"pending"}}`,

	`{"type":"routing-agent-start","runId":"r","from":"NETWORK","payload":{"agentId":"router"}}`,
	`{"type":"routing-agent-text-start","runId":"r","from":"NETWORK","payload":{"runId":"r"}}`,
	`{"type":"routing-agent-text-delta","runId":"r","from":"NETWORK","payload":{"text":"route"}}`,
	`{"type":"routing-agent-end","runId":"r","from":"NETWORK","payload":{"task":"do"}}`,
	`{"type":"routing-agent-abort","runId":"r","from":"NETWORK","payload":{"primitiveType":"routing"}}`,
	`{"type":"agent-execution-start","runId":"r","from":"NETWORK","payload":{"agentId":"p"}}`,
	`{"type":"agent-execution-approval","runId":"r","from":"NETWORK","payload":{"toolCallId":"c1"}}`,
	`{"type":"agent-execution-suspended","runId":"r","from":"NETWORK","payload":{"toolCallId":"c1"}}`,
	`{"type":"agent-execution-abort","runId":"r","from":"NETWORK","payload":{"primitiveType":"agent"}}`,
	`{"type":"agent-execution-end","runId":"r","from":"NETWORK","payload":{"agentId":"p"}}`,
	`{"type":"agent-execution-event-step-start","runId":"r","from":"NETWORK","payload":{"type":"step-start","runId":"r","payload":{"request":"SECRET"}}}`,
	`{"type":"workflow-execution-start","runId":"r","from":"NETWORK","payload":{"name":"wf"}}`,
	`{"type":"workflow-execution-suspended","runId":"r","from":"NETWORK","payload":{"name":"wf"}}`,
	`{"type":"workflow-execution-abort","runId":"r","from":"NETWORK","payload":{"primitiveType":"workflow"}}`,
	`{"type":"workflow-execution-end","runId":"r","from":"NETWORK","payload":{"name":"wf"}}`,
	`{"type":"workflow-execution-event-workflow-start","runId":"r","from":"NETWORK","payload":{"type":"workflow-start"}}`,
	`{"type":"tool-execution-start","runId":"r","from":"NETWORK","payload":{"args":{}}}`,
	`{"type":"tool-execution-approval","runId":"r","from":"NETWORK","payload":{"toolCallId":"c1"}}`,
	`{"type":"tool-execution-suspended","runId":"r","from":"NETWORK","payload":{"toolCallId":"c1"}}`,
	`{"type":"tool-execution-abort","runId":"r","from":"NETWORK","payload":{"primitiveType":"tool"}}`,
	`{"type":"tool-execution-end","runId":"r","from":"NETWORK","payload":{"toolCallId":"c1","toolName":"search"}}`,
	`{"type":"network-validation-start","runId":"r","from":"NETWORK","payload":{"iteration":0}}`,
	`{"type":"network-validation-end","runId":"r","from":"NETWORK","payload":{"passed":true}}`,
	`{"type":"network-object","runId":"r","from":"NETWORK","payload":{"object":{}}}`,
	`{"type":"network-object-result","runId":"r","from":"NETWORK","payload":{"object":{}}}`,
	`{"type":"network-execution-event-step-finish","runId":"r","from":"NETWORK","payload":{"task":"do"}}`,
	`{"type":"network-execution-event-finish","runId":"r","from":"NETWORK","payload":{"task":"do"}}`,

	`{"type":"acme-new","payload":{"type":"error","error":"of the payload, not of the chunk"}}`,
	`{"type":"text-delta","payload":null}`,
	`{"type":"text-delta","payload":{"text":5}}`,
	`{"type":"text-delta"}`,
	`{"type":"tool-result","payload":{"result":"of no call"}}`,
	`{"type":"source","payload":{"id":"s","sourceType":"url","url":"javascript:alert(1)"}}`,
	`{"type":"file","payload":{"data":"https://e.test/../x","mimeType":"image/png"}}`,
	`{"type":"data-note"}`,
	`{"type":"data-\u0007bell","data":1}`,
}

// The result for each declared type, for undeclared types and for types that lack a required member. A number at the start of a line is the step.
func TestCatalogue(t *testing.T) {
	const golden = "testdata/catalogue.txt"
	var got bytes.Buffer
	fmt.Fprintln(&got, "Each type of chunk, and what it becomes with its step in front. Written by go test -update.")
	declared := map[string]bool{}
	tr := New(codec.Run{Session: "s1"})
	for _, line := range catalogue {
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kind, _ := dialect.Read(mustCheck(t, []byte(line))).Text("type")
		declared[kind] = true
		fmt.Fprintf(&got, "\n%s\n", line)
		for _, c := range chunks {
			checkChunk(t, c)
			text, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			_, body, _ := strings.Cut(string(text), `"step":`)
			step, body, _ := strings.Cut(body, ",")
			fmt.Fprintf(&got, "  %s %s {%s\n", step, c.Type(), body)
		}
	}
	if want := 85 + 2; len(declared) != want {
		t.Errorf("%d types, want the 85 that are declared and 2 that are not", len(declared))
	}
	if strings.Contains(outputs(got.String()), "SECRET") {
		t.Error("a secret got through")
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

// outputs returns the lines of the golden file with results.
func outputs(golden string) string {
	var out strings.Builder
	for line := range strings.Lines(golden) {
		if strings.HasPrefix(line, "  ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestNoSecrets checks that prompts and stack traces, which many recorded chunks contain, are in no translated chunk.
func TestNoSecrets(t *testing.T) {
	secrets := []string{"REQUEST BODY", "secret prompt", "STACK"}
	came := 0
	for _, r := range append(runs(t), cases(t)...) {
		for _, s := range translate(t, r) {
			for _, secret := range secrets {
				came += strings.Count(string(s.raw), secret)
				for _, c := range s.chunks {
					if text, err := json.Marshal(c); err != nil || strings.Contains(string(text), secret) {
						t.Errorf("%s: %s, %v", r.Name, text, err)
					}
				}
			}
		}
	}
	if came < 100 {
		t.Errorf("%d secrets came in, want 100 and more: is the test still about anything?", came)
	}
}
